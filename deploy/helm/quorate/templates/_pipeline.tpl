{{/* The pipeline's arguments and volumes, whichever runs it. */}}

{{/* "true" where it reads the release's observers, empty where it reads copies of logs. */}}
{{- define "quorate.pipeline.isLive" -}}
{{- if and .Values.pipeline.enabled (not .Values.pipeline.logs.existingClaim) -}}true{{- end -}}
{{- end -}}

{{- define "quorate.pipeline.run" -}}
[run, --from, /logs, --to, /lake/tables, --report, /lake/report.html]
{{- end -}}

{{/* The jobs that do for observers what `run` does for files, in their order; the last one is the report. */}}
{{- define "quorate.pipeline.jobs" -}}
{{- if include "quorate.pipeline.isLive" . -}}
{{- $observers := printf "%s:%v" (include "quorate.host" (dict "root" . "component" "observer")) (index (include "quorate.ports" . | fromYaml) "observer") -}}
- [stream, --once, --endpoints, {{ $observers | quote }}, --command-config, /etc/quorate/client.properties, --to, /lake/tables]
- [silver, --to, /lake/tables]
- [gold, --to, /lake/tables]
- [report, --to, /lake/tables, --report, /lake/report.html]
{{- else -}}
- {{ include "quorate.pipeline.run" . }}
{{- end -}}
{{- end -}}

{{- define "quorate.pipeline.claims" -}}
- name: lake
  persistentVolumeClaim:
    claimName: {{ .Values.pipeline.lake.existingClaim | default (printf "%s-lake" (include "quorate.fullname" .)) }}
{{- with .Values.pipeline.logs.existingClaim }}
- name: logs
  persistentVolumeClaim:
    claimName: {{ . }}
    readOnly: true
{{- end }}
{{- end -}}

{{- define "quorate.pipeline.claimMounts" -}}
- name: lake
  mountPath: /lake
{{- if .Values.pipeline.logs.existingClaim }}
- name: logs
  mountPath: /logs
  readOnly: true
{{- end }}
{{- end -}}

{{/* A dict with root and job, its arguments: a container that runs one job. Spark listens on loopback, and works in /tmp. */}}
{{- define "quorate.pipeline.container" -}}
{{- $live := include "quorate.pipeline.isLive" .root -}}
- name: {{ first .job }}
  image: {{ include "quorate.image" (dict "root" .root "service" "pipeline") }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [python, -m, services.pipeline]
  args:
    {{- toYaml .job | nindent 4 }}
  env:
    - name: SPARK_DRIVER_MEMORY
      value: {{ .root.Values.pipeline.memory | quote }}
  securityContext:
    {{- include "quorate.securityContext" .root | nindent 4 }}
  resources:
    {{- toYaml .root.Values.pipeline.resources | nindent 4 }}
  volumeMounts:
    - name: tmp
      mountPath: /tmp
    {{- include "quorate.pipeline.claimMounts" .root | nindent 4 }}
    {{- if $live }}
    - name: config
      mountPath: /etc/quorate/client.properties
      subPath: client.properties
      readOnly: true
    - name: tls
      mountPath: /etc/quorate/tls
      readOnly: true
    {{- end }}
{{- end -}}

{{/* A pod that needs what a run needs, on a host where one may be, and ends at once. */}}
{{- define "quorate.pipeline.firstUse" -}}
metadata:
  labels:
    {{- include "quorate.selector" (dict "root" . "component" "lake") | nindent 4 }}
    {{- with .Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "quorate.jobPod" . | nindent 2 }}
  {{- with include "quorate.placement" .Values.pipeline | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  containers:
    - name: first-use
      image: {{ include "quorate.image" (dict "root" . "service" "pipeline") }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [python, -m, services.pipeline]
      args: [--help]
      securityContext:
        {{- include "quorate.securityContext" . | nindent 8 }}
      resources:
        {{- toYaml .Values.pipeline.resources | nindent 8 }}
      volumeMounts:
        - name: lake
          mountPath: /lake
  volumes:
    - name: lake
      persistentVolumeClaim:
        claimName: {{ include "quorate.fullname" . }}-lake
{{- end -}}
