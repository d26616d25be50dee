{{/* The pipeline's arguments and volumes, whichever runs it. */}}

{{/* "true" where it reads the release's observers, empty where it reads copies of logs. */}}
{{- define "quorate.pipeline.isLive" -}}
{{- if and .Values.pipeline.enabled (not .Values.pipeline.logs.existingClaim) -}}true{{- end -}}
{{- end -}}

{{/* The job: of copies of logs, or of the release's own observers. It goes on after damage, which its exit code tells at its end. */}}
{{- define "quorate.pipeline.run" -}}
{{- if include "quorate.pipeline.isLive" . -}}
{{- $observers := printf "%s:%v" (include "quorate.host" (dict "root" . "component" "observer")) (index (include "quorate.ports" . | fromYaml) "observer") -}}
[run, --endpoints, {{ $observers | quote }}, --command-config, /etc/quorate/client.properties, --to, /lake/tables, --report, /lake/report.html]
{{- else -}}
[run, --from, /logs, --to, /lake/tables, --report, /lake/report.html]
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

{{/* The container that runs the job. Spark listens on loopback, and works in /tmp. */}}
{{- define "quorate.pipeline.container" -}}
{{- $live := include "quorate.pipeline.isLive" . -}}
- name: run
  image: {{ include "quorate.image" (dict "root" . "service" "pipeline") }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [python, -m, services.pipeline]
  args:
    {{- include "quorate.pipeline.run" . | fromYamlArray | toYaml | nindent 4 }}
  env:
    - name: SPARK_DRIVER_MEMORY
      value: {{ .Values.pipeline.memory | quote }}
  securityContext:
    {{- include "quorate.securityContext" . | nindent 4 }}
  resources:
    {{- toYaml .Values.pipeline.resources | nindent 4 }}
  volumeMounts:
    - name: tmp
      mountPath: /tmp
    {{- include "quorate.pipeline.claimMounts" . | nindent 4 }}
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
