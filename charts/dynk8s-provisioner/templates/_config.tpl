{{/* Folder of the artifact port's certificate. */}}
{{- define "dynk8s.tlsDirectory" -}}/var/run/dynk8s/tls{{- end }}

{{/*
Map without what is empty in it, at any depth. To the daemon what is empty and
what is left out is the same.
*/}}
{{- define "dynk8s.prune" -}}
{{- $kept := dict }}
{{- range $key, $value := . }}
  {{- if kindIs "map" $value }}
    {{- $value = include "dynk8s.prune" $value | fromYaml }}
  {{- end }}
  {{- if not (or (kindIs "invalid" $value) (and (kindIs "string" $value) (empty $value)) (and (or (kindIs "map" $value) (kindIs "slice" $value)) (empty $value))) }}
    {{- $_ := set $kept $key $value }}
  {{- end }}
{{- end }}
{{- toYaml $kept }}
{{- end }}

{{/*
The daemon's configuration: config, and what follows from other values.
Profiles stay as they are written: an empty list or label has a meaning there.
*/}}
{{- define "dynk8s.config" -}}
{{- $own := dict "kubernetes" (dict "namespace" .Release.Namespace) }}
{{- if include "dynk8s.tlsSecretName" . }}
  {{- $directory := include "dynk8s.tlsDirectory" . }}
  {{- $_ := set $own "artifacts" (dict "tls" (dict "certFile" (printf "%s/tls.crt" $directory) "keyFile" (printf "%s/tls.key" $directory))) }}
{{- end }}
{{- $config := mergeOverwrite (deepCopy (omit .Values.config "profiles")) $own }}
{{- $config = include "dynk8s.prune" $config | fromYaml }}
{{- $_ := set $config "profiles" (.Values.config.profiles | default list) }}
{{- toYaml $config }}
{{- end }}

{{/*
Checksum of the settings that a running daemon cannot take up: all but
profiles and log.level.
*/}}
{{- define "dynk8s.configChecksum" -}}
{{- $config := omit (include "dynk8s.config" . | fromYaml) "profiles" }}
{{- $_ := set $config "log" (omit ($config.log | default dict) "level") }}
{{- toJson $config | sha256sum }}
{{- end }}

{{/* Not empty when a profile has labels or taints that the daemon gives the Node itself. */}}
{{- define "dynk8s.restricts" -}}
{{- range .Values.config.profiles }}
{{- with .node }}
{{- if or .restrictedLabels .restrictedTaints }}true{{ end }}
{{- end }}
{{- end }}
{{- end }}
