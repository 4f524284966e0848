{{/* Environment of the daemon but extraEnv, a list. */}}
{{- define "dynk8s.env" -}}
- name: AWS_EC2_METADATA_DISABLED # outside EC2 there is none to ask
  value: "true"
{{- include "dynk8s.awsCredentialsEnv" . }}
{{- if .Values.aws.fips }}
- name: AWS_USE_FIPS_ENDPOINT
  value: "true"
{{- end }}
{{- with .Values.aws.endpoints }}
{{- $variables := dict "AWS_ENDPOINT_URL" .all "AWS_ENDPOINT_URL_EC2" .ec2 "AWS_ENDPOINT_URL_SQS" .sqs "AWS_ENDPOINT_URL_STS" .sts }}
{{- range $name, $url := $variables }}
{{- if $url }}
- name: {{ $name | quote }}
  value: {{ quote $url }}
{{- end }}
{{- end }}
{{- end }}
{{- include "dynk8s.proxyEnv" . }}
{{- end }}

{{- define "dynk8s.awsCredentialsEnv" -}}
{{- $kind := include "dynk8s.awsKind" . }}
{{- if eq $kind "secret" }}
- name: DYNK8S_AWS_CREDENTIALSDIRECTORY
  value: {{ include "dynk8s.awsCredentialsDirectory" . }}
{{- else if eq $kind "file" }}
- name: AWS_SHARED_CREDENTIALS_FILE
  value: {{ include "dynk8s.awsCredentialsDirectory" . }}/credentials
{{- with .Values.aws.credentials.file.profile }}
- name: AWS_PROFILE
  value: {{ quote . }}
{{- end }}
{{- else if eq $kind "webIdentity" }}
- name: AWS_ROLE_ARN
  value: {{ quote .Values.aws.credentials.webIdentity.roleARN }}
- name: AWS_ROLE_SESSION_NAME # so that CloudTrail tells the pods apart
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: AWS_STS_REGIONAL_ENDPOINTS
  value: regional
- name: AWS_WEB_IDENTITY_TOKEN_FILE
  value: {{ include "dynk8s.awsTokenDirectory" . }}/token
{{- else if eq $kind "rolesAnywhere" }}
- name: AWS_CONFIG_FILE
  value: {{ include "dynk8s.awsConfigDirectory" . }}/config
{{- end }}
{{- end }}

{{/*
Through a proxy go requests to AWS, never those to the API server: its address
is one the kubelet puts in place of $(KUBERNETES_SERVICE_HOST).
*/}}
{{- define "dynk8s.proxyEnv" -}}
{{- with .Values.proxy }}
{{- with .http }}
- name: HTTP_PROXY
  value: {{ quote . }}
{{- end }}
{{- with .https }}
- name: HTTPS_PROXY
  value: {{ quote . }}
{{- end }}
{{- if or .http .https .noProxy }}
- name: NO_PROXY
  value: {{ compact (list "$(KUBERNETES_SERVICE_HOST)" ".svc" ".cluster.local" "localhost" .noProxy) | join "," | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Ports of AWS for the NetworkPolicy, a list in JSON: those of values, and those
in the URLs that stand before or in place of AWS.
*/}}
{{- define "dynk8s.httpsPorts" -}}
{{- $ports := list }}
{{- range .Values.networkPolicy.egress.https.ports }}
{{- $ports = append $ports (int .) }}
{{- end }}
{{- range compact (list .Values.proxy.http .Values.proxy.https .Values.aws.endpoints.all .Values.aws.endpoints.sqs
      .Values.aws.endpoints.ec2 .Values.aws.endpoints.sts .Values.config.queue.url) }}
{{- $url := urlParse . }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (eq $url.scheme "http" | ternary "80" "443") }}
{{- $ports = append $ports (int $port) }}
{{- end }}
{{- toJson (uniq $ports) }}
{{- end }}
