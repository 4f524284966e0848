{{/* How ServiceMonitor and PodMonitor scrape. */}}
{{- define "dynk8s.scrape" -}}
scheme: http
{{- with .interval }}
interval: {{ . | quote }}
{{- end }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . | quote }}
{{- end }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
