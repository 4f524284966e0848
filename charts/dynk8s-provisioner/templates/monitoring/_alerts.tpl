{{/*
The alerts, a list. Prometheus gives every series of the release its
namespace, whether a ServiceMonitor or a PodMonitor found it.
*/}}
{{- define "dynk8s.alerts" -}}
{{- $in := printf "namespace=%q" .Release.Namespace -}}
{{- $deploy := printf "-n %s deploy/%s" .Release.Namespace (include "dynk8s.fullname" .) -}}
{{- with .Values.metrics.prometheusRule.thresholds -}}
- alert: Dynk8sQueueNotPolled
  # The clock of the newest answer to any pod; or no pod is scraped at all.
  expr: |-
    time() - max(dynk8s_last_receive_timestamp_seconds{ {{- $in -}} }) > {{ int .queueSilenceSeconds }}
    or absent(dynk8s_last_receive_timestamp_seconds{ {{- $in -}} })
  for: 2m
  labels:
    severity: critical
  annotations:
    summary: No provisioner receives from the queue.
    description: Instances that start get no key and no token until it does. Events wait in the queue meanwhile.
    runbook: >-
      kubectl -n {{ $.Release.Namespace }} get pods: do they run?
      kubectl logs {{ $deploy }}: AWS credentials that ended, a proxy, the NetworkPolicy, or a queue that was deleted.
      dynk8s_aws_requests_total{service="SQS"} has AWS's own error code.
- alert: Dynk8sMessagesOld
  expr: |-
    histogram_quantile(0.95, sum by (le) (rate(dynk8s_message_age_seconds_bucket{ {{- $in -}} }[15m]))) > {{ int .messageAgeSeconds }}
  for: 10m
  labels:
    severity: warning
  annotations:
    summary: Events are handled late.
    description: {{ printf "%q" "From the event to its message's deletion it takes {{ $value | humanizeDuration }} (95th percentile)." }}
    runbook: >-
      dynk8s_messages_total by outcome: exhausted means that instances wait for keys (add some), retry that calls fail (the log says which),
      too_young that EC2 shows instances late. dynk8s_handle_seconds tells whether handling itself is slow: the API server, or config.queue.concurrency.
- alert: Dynk8sKeysNearlyExhausted
  expr: |-
    max(dynk8s_wireguard_keys{ {{- $in -}} , state="free"}) <= {{ int .freeKeys }}
    and max(dynk8s_wireguard_keys{ {{- $in -}} , state="free"}) > 0
  for: 5m
  labels:
    severity: warning
  annotations:
    summary: Few WireGuard keys are free.
    description: {{ printf "%q" "{{ $value }} keys of the pool are free; each instance needs one." }}
    runbook: >-
      Make keys, configure them on the VPN server and put each into a Secret of type dynk8s.du5t1n.me/wireguard-key in namespace {{ $.Release.Namespace }}.
      Who holds the others: kubectl get secrets -n {{ $.Release.Namespace }} -L dynk8s.du5t1n.me/ec2-instance-id.
- alert: Dynk8sKeysExhausted
  expr: |-
    max(dynk8s_wireguard_keys{ {{- $in -}} , state="free"}) == 0
  for: 1m
  labels:
    severity: critical
  annotations:
    summary: No WireGuard key is free.
    description: The next instance cannot join until a key is free. Its message comes again and again meanwhile, until the redrive policy takes it.
    runbook: >-
      Add key Secrets: instances that wait get them at once. If there should be free ones, the log line "wireguard key is passed over" says what is wrong with them,
      and state="lost" counts keys whose label was removed by hand.
- alert: Dynk8sInstanceNeverJoined
  expr: |-
    sum(increase(dynk8s_never_joined_total{ {{- $in -}} }[1h])) > 0
  labels:
    severity: warning
  annotations:
    summary: An instance was given a token and never joined.
    description: Its token was revoked before its Node was Ready.
    runbook: >-
      Look for the instance id in the log. No "artifact request": cloud-init on the instance, or it does not reach the artifact port.
      "artifact not served": the line has the reason. Artifacts fetched and no Node: wg show and kubeadm's output on the instance,
      and whether config.artifacts.kubeadm.server is reachable over the VPN.
- alert: Dynk8sDeadLettersGrowing
  # What cannot be understood, and what fails as often as a redrive policy allows.
  # A series that is new has no increase yet.
  expr: |-
    sum(increase(dynk8s_messages_total{ {{- $in -}} , outcome=~"malformed|discarded"}[1h])) > 0
    or sum(dynk8s_messages_total{ {{- $in -}} , outcome=~"malformed|discarded"} unless dynk8s_messages_total{ {{- $in -}} } offset 1h) > 0
    or sum(increase(dynk8s_messages_total{ {{- $in -}} , outcome="retry"}[1h])) >= {{ int .retries }}
  labels:
    severity: warning
  annotations:
    summary: Messages are on their way to the dead-letter queue.
    description: They cannot be understood, or handling them fails again and again.
    runbook: >-
      The log lines "message cannot be understood" and "event not handled" have the message id and the reason. Something else writes to the queue,
      or a call fails: mend that, then start a redrive of the dead-letter queue. The next reconcile pass repairs what was missed.
- alert: Dynk8sIdentityRefused
  # Not who is late, has joined or sends nothing at all: those whose proof is wrong.
  # A series that is new has no increase yet.
  expr: |-
    sum by (reason) (increase(dynk8s_artifact_refusals_total{ {{- $in -}} , reason=~"malformed|size|signer|region|account|instance|source"}[15m])) > {{ int .identityRefusals }}
    or sum by (reason) (dynk8s_artifact_refusals_total{ {{- $in -}} , reason=~"malformed|size|signer|region|account|instance|source"} unless dynk8s_artifact_refusals_total{ {{- $in -}} } offset 15m) > {{ int .identityRefusals }}
  labels:
    severity: warning
  annotations:
    summary: {{ printf "%q" "Callers of the artifact port are refused: {{ $labels.reason }}." }}
    description: {{ printf "%q" "{{ $value | humanize }} identity documents were refused in 15 minutes. Somebody tries to get another instance's key, or a setting is wrong." }}
    runbook: >-
      The log line "artifact not served" has reason, instance and address. signer: a region newer than the program (config.artifacts.identity.extraCertificates)?
      region, account: is the list in config.artifacts.identity whole? malformed: line breaks in the document?
      source: is publicAddress on with instances behind a NAT, or do proxies hide the caller's address? Else it is a stranger.
- alert: Dynk8sConfigReloadRefused
  expr: |-
    sum(increase(dynk8s_config_reloads_total{ {{- $in -}} , result="failure"}[1h])) > 0
  labels:
    severity: warning
  annotations:
    summary: The changed configuration was refused.
    description: The old one stays in force, and a pod that starts anew would end at once.
    runbook: >-
      kubectl logs {{ $deploy }}: "configuration not reloaded" names each field and the mend. Write it in the values and upgrade the release, or roll it back.
{{- end }}
{{- end }}
