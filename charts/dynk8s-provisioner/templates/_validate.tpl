{{/*
Refuses what the schema cannot: all at once, one line each, with what to write.
*/}}
{{- define "dynk8s.validate" -}}
{{- $problems := concat
      (include "dynk8s.queueProblems" . | fromJsonArray)
      (include "dynk8s.profileProblems" . | fromJsonArray)
      (include "dynk8s.approvalProblems" . | fromJsonArray)
      (include "dynk8s.ownSettingsProblems" . | fromJsonArray)
      (include "dynk8s.credentialsProblems" . | fromJsonArray)
      (include "dynk8s.environmentProblems" . | fromJsonArray)
      (include "dynk8s.tlsProblems" . | fromJsonArray)
      (include "dynk8s.exposureProblems" . | fromJsonArray)
      (include "dynk8s.podProblems" . | fromJsonArray) }}
{{- if $problems }}
{{- fail (printf "\n\n%s\n" (join "\n" $problems)) }}
{{- end }}
{{- end }}

{{- define "dynk8s.queueProblems" -}}
{{- $p := list }}
{{- if not .Values.config.queue.url }}
  {{- $p = append $p "config.queue.url is empty: write the queue's URL, such as https://sqs.us-east-2.amazonaws.com/123456789012/dynk8s" }}
{{- end }}
{{- toJson $p }}
{{- end }}

{{- define "dynk8s.profileProblems" -}}
{{- $p := list }}
{{- if not .Values.config.profiles }}
  {{- $p = append $p "config.profiles is empty, so no instance would be ours: write at least one profile, such as {name: worker, selector: [{key: dynk8s.du5t1n.me/cluster, values: [home]}]}" }}
{{- end }}
{{- $seen := dict }}
{{- range $i, $profile := .Values.config.profiles }}
  {{- $at := printf "config.profiles[%d]" $i }}
  {{- if hasKey $seen $profile.name }}
    {{- $p = append $p (printf "%s.name: %s is an earlier profile's name: write another" $at $profile.name) }}
  {{- end }}
  {{- $_ := set $seen $profile.name true }}
  {{- if and $profile.matchAll $profile.selector }}
    {{- $p = append $p (printf "%s has matchAll: true and a selector: remove one of the two" $at) }}
  {{- else if not (or $profile.matchAll $profile.selector) }}
    {{- $p = append $p (printf "%s has no selector: write conditions on tags, or matchAll: true for every instance of the region" $at) }}
  {{- end }}
  {{- range $j, $condition := $profile.selector }}
    {{- $rules := compact (list (ternary "values" "" (hasKey $condition "values")) (ternary "notValues" "" (hasKey $condition "notValues"))
          (ternary "exists" "" ($condition.exists | default false)) (ternary "absent" "" ($condition.absent | default false))) }}
    {{- if not $rules }}
      {{- $p = append $p (printf "%s.selector[%d] says nothing about the tag %s: write values, notValues, exists: true or absent: true" $at $j $condition.key) }}
    {{- else if and (has "absent" $rules) (gt (len $rules) 1) }}
      {{- $p = append $p (printf "%s.selector[%d] has absent: true beside %s: remove one of them" $at $j (without $rules "absent" | join " and ")) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- toJson $p }}
{{- end }}

{{/* With config.certificates.approve one group of tokens is the provisioner's, and nobody else approves what it asks for. */}}
{{- define "dynk8s.approvalProblems" -}}
{{- $p := list }}
{{- $group := .Values.config.certificates.group }}
{{- $kubeadm := "system:bootstrappers:kubeadm:default-node-token" }}
{{- if .Values.config.certificates.approve }}
  {{- if eq $group $kubeadm }}
    {{- $p = append $p (printf "config.certificates.group is %s, whose requests kubeadm's RBAC approves whatever Node they name: write a group of the program's own, such as system:bootstrappers:dynk8s" $group) }}
  {{- end }}
  {{- range $i, $profile := .Values.config.profiles }}
    {{- $groups := dig "bootstrapToken" "extraGroups" (list $group) $profile }}
    {{- if and (kindIs "slice" $groups) (not (has $group $groups)) (not (has $kubeadm $groups)) }}
      {{- $p = append $p (printf "config.profiles[%d].bootstrapToken.extraGroups lacks %s, so nobody would approve what its instances ask for: add it, or leave extraGroups out" $i $group) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- toJson $p }}
{{- end }}

{{/* Settings that the chart writes itself. */}}
{{- define "dynk8s.ownSettingsProblems" -}}
{{- $p := list }}
{{- with .Values.config }}
{{- if and .kubernetes.namespace (ne .kubernetes.namespace $.Release.Namespace) }}
  {{- $p = append $p (printf "config.kubernetes.namespace is %s, but the rights on key Secrets are in the release's namespace, %s: leave it empty, or install the release there" .kubernetes.namespace $.Release.Namespace) }}
{{- end }}
{{- if and .aws.credentialsDirectory (include "dynk8s.awsKind" $) }}
  {{- $p = append $p "config.aws.credentialsDirectory stands beside aws.credentials: leave it empty, as the chart sets it for aws.credentials.secret" }}
{{- end }}
{{- if eq (include "dynk8s.port" .artifacts.address) (include "dynk8s.port" .operations.address) }}
  {{- $p = append $p "config.artifacts.address and config.operations.address have the same port: write two, such as :8080 and :8081" }}
{{- end }}
{{- end }}
{{- toJson $p }}
{{- end }}

{{- define "dynk8s.credentialsProblems" -}}
{{- $p := list }}
{{- $kinds := include "dynk8s.awsKinds" . | fromJsonArray }}
{{- if gt (len $kinds) 1 }}
  {{- $p = append $p (printf "aws.credentials has %s: keep one kind and leave the others empty" (join " and " $kinds)) }}
{{- end }}
{{- if has "rolesAnywhere" $kinds }}
  {{- range list "trustAnchorARN" "profileARN" "roleARN" "certificateSecretName" }}
    {{- if not (get $.Values.aws.credentials.rolesAnywhere .) }}
      {{- $p = append $p (printf "aws.credentials.rolesAnywhere.%s is empty: write it too, as IAM Roles Anywhere needs trustAnchorARN, profileARN, roleARN and certificateSecretName" .) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- toJson $p }}
{{- end }}

{{- define "dynk8s.environmentProblems" -}}
{{- $p := list }}
{{- $kind := include "dynk8s.awsKind" . }}
{{- $keys := list "AWS_ACCESS_KEY_ID" "AWS_ACCESS_KEY" "AWS_SECRET_ACCESS_KEY" "AWS_SECRET_KEY" "AWS_SESSION_TOKEN" }}
{{- $seen := dict }}
{{- $own := list }}
{{- range include "dynk8s.env" . | fromYamlArray }}
  {{- $own = append $own .name }}
{{- end }}
{{- range .Values.extraEnv }}
  {{- if and .value (has .name $keys) }}
    {{- $p = append $p (printf "extraEnv has %s with a plain value, which all who may read the release see: put the key into a Secret and write its name in aws.credentials.secret.name" .name) }}
  {{- end }}
  {{- if and $kind .valueFrom (has .name $keys) }}
    {{- $p = append $p (printf "extraEnv has %s beside aws.credentials.%s, and the SDK would take one of the two silently: keep one" .name $kind) }}
  {{- end }}
  {{- if hasKey $seen .name }}
    {{- $p = append $p (printf "extraEnv has %s twice: keep one" .name) }}
  {{- else if has .name $own }}
    {{- $p = append $p (printf "extraEnv has %s, which the chart sets: write the value that stands for it (aws, proxy) instead" .name) }}
  {{- end }}
  {{- $_ := set $seen .name true }}
{{- end }}
{{- toJson $p }}
{{- end }}

{{- define "dynk8s.tlsProblems" -}}
{{- $p := list }}
{{- $files := .Values.config.artifacts.tls }}
{{- if ne (empty $files.certFile) (empty $files.keyFile) }}
  {{- $p = append $p "config.artifacts.tls has one of certFile and keyFile: write both, or none and tls.secretName" }}
{{- end }}
{{- if and (include "dynk8s.tlsSecretName" .) (or $files.certFile $files.keyFile) }}
  {{- $p = append $p "config.artifacts.tls stands beside tls.secretName or certificate.enabled: leave certFile and keyFile empty, as the chart sets them" }}
{{- end }}
{{- with .Values.certificate }}
{{- if .enabled }}
  {{- if not .issuerRef.name }}
    {{- $p = append $p "certificate.enabled is true without an issuer: write certificate.issuerRef.name" }}
  {{- end }}
  {{- if not (or .dnsNames .ipAddresses) }}
    {{- $p = append $p "certificate.enabled is true without a name: write in certificate.dnsNames (or ipAddresses) how instances reach the endpoint" }}
  {{- end }}
  {{- $sizes := dict "ECDSA" (list 256 384 521) "RSA" (list 2048 3072 4096) "Ed25519" list }}
  {{- with get $sizes .privateKey.algorithm }}
  {{- if not (has (int $.Values.certificate.privateKey.size) .) }}
    {{- $p = append $p (printf "certificate.privateKey.size is %d: write %s for %s" (int $.Values.certificate.privateKey.size) (join " or " .) $.Values.certificate.privateKey.algorithm) }}
  {{- end }}
  {{- end }}
  {{- if or (ne $.Values.tls.certificateKey "tls.crt") (ne $.Values.tls.privateKeyKey "tls.key") }}
    {{- $p = append $p "tls.certificateKey and tls.privateKeyKey are not cert-manager's: leave them at tls.crt and tls.key with certificate.enabled" }}
  {{- end }}
{{- end }}
{{- end }}
{{- toJson $p }}
{{- end }}

{{- define "dynk8s.exposureProblems" -}}
{{- $p := list }}
{{- $type := .Values.service.artifacts.type }}
{{- if and (include "dynk8s.exposed" .) (eq (include "dynk8s.scheme" .) "HTTP") (not .Values.config.artifacts.trustedProxies) }}
  {{- $p = append $p (printf "service.artifacts.type is %s and nothing ends TLS, so keys and tokens would cross the network in plain text: write tls.secretName, or certificate.enabled: true; or name the network of the proxy that ends TLS in config.artifacts.trustedProxies" $type) }}
{{- end }}
{{- if and (eq $type "ClusterIP") .Values.service.artifacts.nodePort }}
  {{- $p = append $p "service.artifacts.nodePort stands beside type ClusterIP: write 0, or type NodePort or LoadBalancer" }}
{{- end }}
{{- if and (ne $type "LoadBalancer") (or .Values.service.artifacts.loadBalancerClass .Values.service.artifacts.loadBalancerSourceRanges) }}
  {{- $p = append $p (printf "service.artifacts has loadBalancerClass or loadBalancerSourceRanges with type %s: leave them empty, or write type LoadBalancer" $type) }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
  {{- $p = append $p "ingress.enabled is true without a host: write ingress.hosts, such as [provisioner.example.org]" }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
  {{- $p = append $p "httpRoute.enabled is true without a Gateway: write httpRoute.parentRefs, such as [{name: public, namespace: gateways, sectionName: https}]" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}
  {{- $p = append $p "metrics.serviceMonitor and metrics.podMonitor are both enabled, so every metric would be there twice: keep one" }}
{{- end }}
{{- toJson $p }}
{{- end }}

{{- define "dynk8s.podProblems" -}}
{{- $p := list }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
  {{- $p = append $p "serviceAccount.create is false: write the name of the one to use in serviceAccount.name" }}
{{- end }}
{{- $least := add .Values.preStopSleepSeconds 25 }}
{{- if lt (int .Values.terminationGracePeriodSeconds) (int $least) }}
  {{- $p = append $p (printf "terminationGracePeriodSeconds is %d: write at least %d, preStopSleepSeconds and the 25 that the daemon takes to stop" (int .Values.terminationGracePeriodSeconds) (int $least)) }}
{{- end }}
{{- toJson $p }}
{{- end }}
