{{- define "dynk8s.awsCredentialsDirectory" -}}/var/run/dynk8s/aws-credentials{{- end }}
{{- define "dynk8s.awsTokenDirectory" -}}/var/run/dynk8s/aws-token{{- end }}
{{- define "dynk8s.awsConfigDirectory" -}}/var/run/dynk8s/aws-config{{- end }}
{{- define "dynk8s.rolesAnywhereDirectory" -}}/var/run/dynk8s/roles-anywhere{{- end }}
{{- define "dynk8s.helperDirectory" -}}/var/run/dynk8s/bin{{- end }}

{{/* The kinds of credentials that values ask for, as a list in JSON: one or none. */}}
{{- define "dynk8s.awsKinds" -}}
{{- $kinds := list }}
{{- with .Values.aws.credentials }}
{{- if .secret.name }}{{ $kinds = append $kinds "secret" }}{{ end }}
{{- if .file.secretName }}{{ $kinds = append $kinds "file" }}{{ end }}
{{- if .webIdentity.roleARN }}{{ $kinds = append $kinds "webIdentity" }}{{ end }}
{{- with .rolesAnywhere }}
{{- if or .trustAnchorARN .profileARN .roleARN .certificateSecretName }}{{ $kinds = append $kinds "rolesAnywhere" }}{{ end }}
{{- end }}
{{- end }}
{{- toJson $kinds }}
{{- end }}

{{/* The one kind, or nothing. */}}
{{- define "dynk8s.awsKind" -}}
{{- include "dynk8s.awsKinds" . | fromJsonArray | first | default "" }}
{{- end }}

{{/* AWS's configuration file for IAM Roles Anywhere. */}}
{{- define "dynk8s.awsConfig" -}}
{{- $helper := .Values.aws.credentials.rolesAnywhere.helper.path }}
{{- if .Values.aws.credentials.rolesAnywhere.helper.image }}
{{- $helper = printf "%s/aws_signing_helper" (include "dynk8s.helperDirectory" .) }}
{{- end }}
{{- $directory := include "dynk8s.rolesAnywhereDirectory" . -}}
[default]
credential_process = {{ $helper }} credential-process
{{- with .Values.aws.credentials.rolesAnywhere }}
{{- printf " --certificate %s/tls.crt --private-key %s/tls.key" $directory $directory }}
{{- printf " --trust-anchor-arn %s --profile-arn %s --role-arn %s" .trustAnchorARN .profileARN .roleARN }}
{{- end }}
{{- if or .Values.proxy.http .Values.proxy.https }} --with-proxy{{ end }}
{{- end }}

{{/* Volumes of the credentials, a list. */}}
{{- define "dynk8s.awsVolumes" -}}
{{- $kind := include "dynk8s.awsKind" . }}
{{- with .Values.aws.credentials }}
{{- if eq $kind "secret" }}
- name: aws-credentials
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ .secret.name | quote }}
          items:
            - key: {{ .secret.accessKeyIDKey | quote }}
              path: aws_access_key_id
            - key: {{ .secret.secretAccessKeyKey | quote }}
              path: aws_secret_access_key
      - secret:
          name: {{ .secret.name | quote }}
          optional: true # a key without session token has none
          items:
            - key: {{ .secret.sessionTokenKey | quote }}
              path: aws_session_token
{{- else if eq $kind "file" }}
- name: aws-credentials
  secret:
    secretName: {{ .file.secretName | quote }}
    defaultMode: 0440
    items:
      - key: {{ .file.key | quote }}
        path: credentials
{{- else if eq $kind "webIdentity" }}
- name: aws-token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken:
          audience: {{ .webIdentity.audience | quote }}
          expirationSeconds: {{ int .webIdentity.expirationSeconds }}
          path: token
{{- else if eq $kind "rolesAnywhere" }}
- name: aws-config
  configMap:
    name: "{{ include "dynk8s.fullname" $ }}-aws"
- name: roles-anywhere
  secret:
    secretName: {{ .rolesAnywhere.certificateSecretName | quote }}
    defaultMode: 0440
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
{{- if .rolesAnywhere.helper.image }}
- name: bin
  emptyDir:
    sizeLimit: 64Mi
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the daemon's container has them, a list. */}}
{{- define "dynk8s.awsVolumeMounts" -}}
{{- $kind := include "dynk8s.awsKind" . }}
{{- if or (eq $kind "secret") (eq $kind "file") }}
- name: aws-credentials
  mountPath: {{ include "dynk8s.awsCredentialsDirectory" . }}
  readOnly: true
{{- else if eq $kind "webIdentity" }}
- name: aws-token
  mountPath: {{ include "dynk8s.awsTokenDirectory" . }}
  readOnly: true
{{- else if eq $kind "rolesAnywhere" }}
- name: aws-config
  mountPath: {{ include "dynk8s.awsConfigDirectory" . }}
  readOnly: true
- name: roles-anywhere
  mountPath: {{ include "dynk8s.rolesAnywhereDirectory" . }}
  readOnly: true
{{- if .Values.aws.credentials.rolesAnywhere.helper.image }}
- name: bin
  mountPath: {{ include "dynk8s.helperDirectory" . }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}
