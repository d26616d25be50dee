{{/* What the pods have in common. */}}

{{- define "quorate.podSecurityContext" -}}
runAsNonRoot: true
{{- with .Values.podSecurity.uid }}
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "quorate.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* A part of the values: on which hosts its pods may be. */}}
{{- define "quorate.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A dict with root, component, and values, its part of the values: the beginning of a pod's spec. */}}
{{- define "quorate.pod" -}}
serviceAccountName: {{ include "quorate.serviceAccountName" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "quorate.podSecurityContext" .root | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
{{- with include "quorate.placement" .values | trim }}
{{ . }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "quorate.selector" . | nindent 8 }}
    {{- if not (has .component (list "quorum" "broker")) }}
    matchLabelKeys: [pod-template-hash]
    {{- end }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: {{ ternary "DoNotSchedule" "ScheduleAnyway" (and (has .component (list "quorum" "broker")) .values.spreadHosts) }}
    labelSelector:
      matchLabels:
        {{- include "quorate.selector" . | nindent 8 }}
    {{- if not (has .component (list "quorum" "broker")) }}
    matchLabelKeys: [pod-template-hash]
    {{- end }}
{{- end -}}

{{/* A dict with root, component, values and config: the metadata of a pod template. */}}
{{- define "quorate.podMetadata" -}}
labels:
  {{- include "quorate.selector" . | nindent 2 }}
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/config: {{ .config | sha256sum }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A dict with the name of a variable and the value `existingSecret` and `key` of one that a Secret has: nothing without one. */}}
{{- define "quorate.envOfSecret" -}}
{{- with .of.existingSecret }}
- name: {{ $.name }}
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.of.key }}
{{- end }}
{{- end -}}

{{/* A dict with root and service: the environment that every container has. */}}
{{- define "quorate.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: POD_IP
  valueFrom:
    fieldRef: {fieldPath: status.podIP}
- name: NODE_NAME
  valueFrom:
    fieldRef: {fieldPath: spec.nodeName}
- name: QUORATE_LOG_LEVEL
  value: {{ .root.Values.logging.level }}
- name: QUORATE_LOG_FORMAT
  value: {{ .root.Values.logging.format }}
{{- if .root.Values.metrics.enabled }}
- name: OTEL_METRICS_EXPORTER
  value: prometheus
- name: OTEL_EXPORTER_PROMETHEUS_HOST
  value: $(POD_IP)
- name: OTEL_EXPORTER_PROMETHEUS_PORT
  value: {{ index (include "quorate.metricsPorts" .root | fromYaml) .service | quote }}
{{- end }}
{{- if .root.Values.tracing.enabled }}
- name: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
  value: {{ include "quorate.tracesEndpoint" .root }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: k8s.namespace.name={{ .root.Release.Namespace }},k8s.pod.name=$(POD_NAME),k8s.node.name=$(NODE_NAME)
{{- end }}
{{- end -}}

{{- define "quorate.tracesEndpoint" -}}
{{- $to := ternary "collector" "observer" .Values.collector.enabled -}}
{{- .Values.tracing.endpoint | default (printf "https://%s:%v" (include "quorate.host" (dict "root" . "component" $to)) (index (include "quorate.ports" . | fromYaml) $to)) -}}
{{- end -}}

{{/* The environment that a node's containers have besides: who it is, and where it listens. */}}
{{- define "quorate.nodeEnv" -}}
- name: QUORATE_NODE_ID
  valueFrom:
    fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}
{{- if ne .service "gateway" }}
- name: QUORATE_ADVERTISED_LISTENERS
  value: {{ include (ternary "quorate.brokerAdvertised" "quorate.advertised" (eq .service "broker")) . }}
{{- end }}
{{- end -}}

{{/* A dict with root, service, and readyWhen, by default readiness: probes in the clear, on a port that serves health alone. */}}
{{- define "quorate.probes" -}}
{{- $port := index (include "quorate.healthPorts" .root | fromYaml) .service -}}
{{- $probes := .root.Values.probes -}}
startupProbe:
  grpc: {port: {{ $port }}, service: startup}
  periodSeconds: 1
  timeoutSeconds: {{ $probes.timeoutSeconds }}
  failureThreshold: {{ $probes.startupSeconds }}
readinessProbe:
  grpc: {port: {{ $port }}, service: {{ .readyWhen | default "readiness" }}}
  periodSeconds: {{ $probes.periodSeconds }}
  timeoutSeconds: {{ $probes.timeoutSeconds }}
  failureThreshold: {{ $probes.readinessFailures }}
livenessProbe:
  grpc: {port: {{ $port }}, service: liveness}
  periodSeconds: {{ $probes.periodSeconds }}
  timeoutSeconds: {{ $probes.timeoutSeconds }}
  failureThreshold: {{ $probes.livenessFailures }}
{{- end -}}

{{/* A dict with root, service and resources, and what the probes take: all of a container but its environment and volumes. */}}
{{- define "quorate.container" -}}
image: {{ include "quorate.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [--config, /etc/quorate/{{ .service }}.properties]
securityContext:
  {{- include "quorate.securityContext" .root | nindent 2 }}
ports:
  {{- if eq .service "gateway" }}
  {{- range include "quorate.listeners" .root | fromJsonArray }}
  - name: {{ .portName }}
    containerPort: {{ .port }}
  {{- end }}
  {{- else }}
  - name: {{ .service }}
    containerPort: {{ index (include "quorate.ports" .root | fromYaml) .service }}
  {{- end }}
  {{- if and (eq .service "observer") .root.Values.observer.page.enabled }}
  - name: page
    containerPort: {{ include "quorate.pagePort" .root }}
  {{- end }}
  - containerPort: {{ index (include "quorate.healthPorts" .root | fromYaml) .service }}
  {{- if .root.Values.metrics.enabled }}
  - name: prom-{{ .service }}
    containerPort: {{ index (include "quorate.metricsPorts" .root | fromYaml) .service }}
  {{- end }}
{{ include "quorate.probes" . }}
{{- if .root.Values.preStopSeconds }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ .root.Values.preStopSeconds }}
{{- end }}
resources:
  {{- toYaml .resources | nindent 2 }}
{{- end -}}

{{/*
The container that copies the certificate of its own node, as the only one that mounts those of all; it listens nowhere.
The others are started once it has.
*/}}
{{- define "quorate.ownCertificate" -}}
- name: certificate
  restartPolicy: Always
  image: {{ include "quorate.image" (dict "root" . "service" "quorum") }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [python, -m, services.quorum.own_certificate]
  args: [--set=certificates.of.nodes=/etc/quorate/nodes, --set=certificates.own=/etc/quorate/tls]
  env:
    - name: QUORATE_LOG_LEVEL
      value: {{ .Values.logging.level }}
    - name: QUORATE_LOG_FORMAT
      value: {{ .Values.logging.format }}
    - name: QUORATE_NODE_ID
      valueFrom:
        fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}
  securityContext:
    {{- include "quorate.securityContext" . | nindent 4 }}
  startupProbe:
    exec:
      command: [test, -f, /etc/quorate/tls/ca.crt]
    periodSeconds: 1
    failureThreshold: {{ .Values.probes.startupSeconds }}
  resources:
    requests: {cpu: 10m, memory: 64Mi}
    limits: {memory: 128Mi}
  volumeMounts:
    - name: certificates
      mountPath: /etc/quorate/nodes
      readOnly: true
    - name: tls
      mountPath: /etc/quorate/tls
    - name: tmp
      mountPath: /tmp
{{- end -}}

{{/* A dict with root, and identity, quorum or broker: the volumes of a node's certificate, and of the gateways'. */}}
{{- define "quorate.ownCertificateVolumes" -}}
{{- $ids := include (ternary "quorate.brokerIds" "quorate.nodeIds" (eq .identity "broker")) .root -}}
- name: tls
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
- name: certificates
  projected:
    defaultMode: 0440
    sources:
      {{- range $id := splitList "," $ids }}
      - secret:
          name: {{ include "quorate.tlsSecret" (dict "root" $.root "identity" (printf "%s-%s" $.identity $id)) }}
          items:
            - {key: tls-combined.pem, path: {{ $id }}/tls-combined.pem}
            - {key: ca.crt, path: {{ $id }}/ca.crt}
      {{- end }}
{{- if and (eq .identity "quorum") .root.Values.gateway.enabled }}
- name: gateway-tls
  secret:
    secretName: {{ include "quorate.tlsSecret" (dict "root" .root "identity" "gateway") }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/* A dict with service, and tls, the volume of its certificate where it is not `tls`. */}}
{{- define "quorate.mounts" -}}
- name: config
  mountPath: /etc/quorate/{{ .service }}.properties
  subPath: {{ .service }}.properties
  readOnly: true
- name: {{ .tls | default "tls" }}
  mountPath: /etc/quorate/tls
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- end -}}

{{/* A dict with root, component and identity. */}}
{{- define "quorate.volumes" -}}
- name: config
  configMap:
    name: {{ include "quorate.fullname" .root }}-{{ .component }}
{{- if or (eq .identity "broker") (and (eq .identity "quorum") (include "quorate.showsOwn" .root)) }}
{{ include "quorate.ownCertificateVolumes" . }}
{{- else }}
- name: tls
  secret:
    secretName: {{ include "quorate.tlsSecret" . }}
    defaultMode: 0440
{{- end }}
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}

{{/* What the pods of hooks and tests have in common; they show the admin's certificate. Where they may run is said by the caller. */}}
{{- define "quorate.jobPod" -}}
serviceAccountName: {{ include "quorate.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
restartPolicy: Never
securityContext:
  {{- include "quorate.podSecurityContext" . | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* A dict with root, resources, and whether it traces. */}}
{{- define "quorate.jobContainer" -}}
env:
  - name: QUORATE_LOG_LEVEL
    value: {{ .root.Values.logging.level }}
  - name: QUORATE_LOG_FORMAT
    value: {{ .root.Values.logging.format }}
  {{- if and .traces .root.Values.tracing.enabled }}
  - name: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
    value: {{ include "quorate.tracesEndpoint" .root }}
  {{- end }}
securityContext:
  {{- include "quorate.securityContext" .root | nindent 2 }}
resources:
  {{- toYaml .resources | nindent 2 }}
volumeMounts:
  - name: tls
    mountPath: /etc/quorate/tls
    readOnly: true
  - name: tmp
    mountPath: /tmp
{{- end -}}

{{- define "quorate.jobVolumes" -}}
- name: tls
  secret:
    secretName: {{ include "quorate.tlsSecret" (dict "root" . "identity" "admin") }}
    defaultMode: 0440
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}
