{{/* Name of the application. */}}
{{- define "dynk8s.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
Name of the resources: at most 40 characters, as endings are added. A release
called dynk8s is dynk8s-provisioner, not dynk8s-dynk8s-provisioner. Releases may
have dots in their names, Services not.
*/}}
{{- define "dynk8s.fullname" -}}
{{- $name := include "dynk8s.name" . }}
{{- $full := printf "%s-%s" .Release.Name $name }}
{{- if .Values.fullnameOverride }}
{{- $full = .Values.fullnameOverride }}
{{- else if contains $name .Release.Name }}
{{- $full = .Release.Name }}
{{- else if hasPrefix (printf "%s-" .Release.Name) $name }}
{{- $full = $name }}
{{- end }}
{{- $full | replace "." "-" | trunc 40 | trimAll "-" }}
{{- end }}

{{/*
Name of resources outside the release's namespace, where other installations
may have theirs.
*/}}
{{- define "dynk8s.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "dynk8s.fullname" .) }}
{{- end }}

{{- define "dynk8s.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "dynk8s.fullname" .) }}
{{- end }}

{{/* Labels that select the pods. They can never change. */}}
{{- define "dynk8s.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dynk8s.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: provisioner
{{- end }}

{{/* Labels of the pod of `helm test`, which no Service may select. */}}
{{- define "dynk8s.testLabels" -}}
app.kubernetes.io/name: {{ include "dynk8s.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: test
{{- end }}

{{/* Labels of all resources. */}}
{{- define "dynk8s.labels" -}}
{{- $own := merge (include "dynk8s.selectorLabels" . | fromYaml) (dict
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
      "app.kubernetes.io/managed-by" .Release.Service
      "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_")) }}
{{- toYaml (merge $own (.Values.commonLabels | default dict)) }}
{{- end }}

{{/*
Metadata of a resource. Argument: context, and by choice name, namespace (""
for none), labels and annotations.
*/}}
{{- define "dynk8s.metadata" -}}
{{- $c := .context -}}
name: {{ .name | default (include "dynk8s.fullname" $c) | quote }}
{{- with (hasKey . "namespace" | ternary .namespace $c.Release.Namespace) }}
namespace: {{ . | quote }}
{{- end }}
labels:
  {{- include "dynk8s.labels" $c | fromYaml | mergeOverwrite (deepCopy (.labels | default dict)) | toYaml | nindent 2 }}
{{- with merge (deepCopy (.annotations | default dict)) ($c.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "dynk8s.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Port in an address to listen on. */}}
{{- define "dynk8s.port" -}}
{{- splitList ":" . | last }}
{{- end }}

{{/* Scheme of the artifact port: HTTPS or HTTP. */}}
{{- define "dynk8s.scheme" -}}
{{- if or (include "dynk8s.tlsSecretName" .) .Values.config.artifacts.tls.certFile }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{/* Secret of the artifact port's certificate; empty: the pods have none. */}}
{{- define "dynk8s.tlsSecretName" -}}
{{- if .Values.tls.secretName }}
{{- .Values.tls.secretName }}
{{- else if .Values.certificate.enabled }}
{{- printf "%s-tls" (include "dynk8s.fullname" .) }}
{{- end }}
{{- end }}

{{/* Not empty when the artifact port is reached from outside without a proxy of the cluster's. */}}
{{- define "dynk8s.exposed" -}}
{{- if ne .Values.service.artifacts.type "ClusterIP" }}true{{ end }}
{{- end }}
