{{/* Names, labels and addresses. */}}

{{- define "quorate.fullname" -}}
{{- $name := .Values.fullnameOverride | default (ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name)) -}}
{{- if gt (len $name) 40 -}}
{{- fail (printf "the name %s has %d characters; names of pods begin with it, and it has at most 40: choose a shorter release name, or fullnameOverride" $name (len $name)) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* A dict with root and component. */}}
{{- define "quorate.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "quorate.labels" -}}
{{ include "quorate.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ .root.Chart.Name }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "quorate.image" -}}
{{- $image := .root.Values.image -}}
{{- $prefix := compact (list $image.registry $image.repository .service) | join "/" -}}
{{- with index $image.digests .service -}}
{{- printf "%s@%s" $prefix . -}}
{{- else -}}
{{- printf "%s:%s" $prefix ($image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "quorate.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "quorate.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* Twenty-one hexadecimal digits and an A are sixteen bytes as Kafka writes them. */}}
{{- define "quorate.clusterId" -}}
{{- .Values.clusterId | default (printf "%sA" (printf "%s/%s" .Release.Namespace (include "quorate.fullname" .) | sha256sum | trunc 21)) -}}
{{- end -}}

{{/* A dict with root and component: the host of a Service. */}}
{{- define "quorate.host" -}}
{{- printf "%s-%s.%s.svc" (include "quorate.fullname" .root) .component .root.Release.Namespace -}}
{{- end -}}

{{/* A dict with root and pod, an ordinal or a reference to one. */}}
{{- define "quorate.nodeHost" -}}
{{- printf "%s.%s" .pod (include "quorate.host" (dict "root" .root "component" "quorum")) -}}
{{- end -}}

{{/* "true" if there are two heartbeat services: one counts, and the other stands by. */}}
{{- define "quorate.hasTwoHeartbeats" -}}
{{- if gt (int .Values.heartbeat.replicas) 1 -}}true{{- end -}}
{{- end -}}

{{/*
host:port of every heartbeat service, with commas. Of two each has its own: a Service would have a caller at one of
them, which may stand by, for as long as its connection lasts.
*/}}
{{- define "quorate.heartbeats" -}}
{{- $port := index (include "quorate.ports" . | fromYaml) "heartbeat" -}}
{{- if include "quorate.hasTwoHeartbeats" . -}}
{{- $pods := include "quorate.host" (dict "root" . "component" "heartbeat-pods") -}}
{{- $all := list -}}
{{- range $number := until (int .Values.heartbeat.replicas) -}}
{{- $all = append $all (printf "%s-heartbeat-%d.%s:%v" (include "quorate.fullname" $) $number $pods $port) -}}
{{- end -}}
{{- join "," $all -}}
{{- else -}}
{{- printf "%s:%v" (include "quorate.host" (dict "root" . "component" "heartbeat")) $port -}}
{{- end -}}
{{- end -}}

{{/* The quorum's ids, with commas. */}}
{{- define "quorate.nodeIds" -}}
{{- $first := int .Values.quorum.firstNodeId -}}
{{- $ids := list -}}
{{- range $each := untilStep $first (int (add $first .Values.quorum.replicas)) 1 -}}
{{- $ids = append $ids (toString $each) -}}
{{- end -}}
{{- join "," $ids -}}
{{- end -}}

{{/* The brokers' ids, with commas; empty without brokers of ours. */}}
{{- define "quorate.brokerIds" -}}
{{- $first := int .Values.brokers.firstNodeId -}}
{{- $ids := list -}}
{{- range $each := untilStep $first (int (add $first (ternary .Values.brokers.replicas 0 .Values.brokers.enabled))) 1 -}}
{{- $ids = append $ids (toString $each) -}}
{{- end -}}
{{- join "," $ids -}}
{{- end -}}

{{/* A dict with root and pod, an ordinal's pod or a reference to one. */}}
{{- define "quorate.brokerHost" -}}
{{- printf "%s.%s" .pod (include "quorate.host" (dict "root" .root "component" "broker")) -}}
{{- end -}}

{{/*
host:port of every gateway at the first listener where a broker can show its own certificate, with commas; empty if
there is none, or there are no gateways.
*/}}
{{- define "quorate.brokerGateways" -}}
{{- $found := "" -}}
{{- range include "quorate.listeners" . | fromJsonArray -}}
{{- if and (not $found) (eq .protocol "SSL") (not .existingSecret) -}}
{{- $found = include "quorate.nodes" (dict "root" $ "port" .port "named" false) -}}
{{- end -}}
{{- end -}}
{{- $found -}}
{{- end -}}

{{/*
A dict with root and port, named (whether an id comes before each), and listener (a name before each, or empty):
host:port of every node, with commas.
*/}}
{{- define "quorate.nodes" -}}
{{- $root := .root -}}{{- $port := .port -}}{{- $named := .named -}}
{{- $listener := ternary (printf "%s://" .listener) "" (not (empty .listener)) -}}
{{- $all := list -}}
{{- range $id := splitList "," (include "quorate.nodeIds" .root) -}}
{{- $host := include "quorate.nodeHost" (dict "root" $root "pod" (printf "%s-quorum-%s" (include "quorate.fullname" $root) $id)) -}}
{{- $all = append $all (printf "%s%s%s:%v" (ternary (printf "%s@" $id) "" $named) $listener $host $port) -}}
{{- end -}}
{{- join "," $all -}}
{{- end -}}

{{/*
The ports on which containers listen; those of the gateway are its listeners'. Pods have their own network: nobody needs
to change them.
*/}}
{{- define "quorate.ports" -}}
quorum: 9093
controller: 9094
heartbeat: 9095
placer: 9096
observer: 9097
collector: 4317
broker: 9092
{{- end -}}

{{/* Where browsers get the page, if there is one: its listener speaks HTTP. */}}
{{- define "quorate.pagePort" -}}
8443
{{- end -}}

{{- define "quorate.healthPorts" -}}
quorum: 9193
controller: 9194
gateway: 9192
heartbeat: 9195
placer: 9196
observer: 9197
broker: 9198
{{- end -}}

{{- define "quorate.metricsPorts" -}}
quorum: 9293
controller: 9294
gateway: 9292
heartbeat: 9295
placer: 9296
observer: 9297
broker: 9298
{{- end -}}

{{- define "quorate.tlsSecret" -}}
{{- if eq .root.Values.tls.source "existingSecret" -}}
{{- $key := include "quorate.identityKey" .identity -}}
{{- $name := index .root.Values.tls.existingSecrets $key | required (printf "tls.existingSecrets.%s is empty; with tls.source = existingSecret it names a Secret with tls-combined.pem and ca.crt" $key) -}}
{{- printf "%s%s" $name (trimPrefix $key .identity) -}}
{{- else -}}
{{- printf "%s-%s-tls" (include "quorate.fullname" .root) .identity -}}
{{- end -}}
{{- end -}}

{{/* A dict with root and identity: the names in a certificate, as a JSON list. */}}
{{- define "quorate.dnsNames" -}}
{{- $host := include "quorate.host" (dict "root" .root "component" .identity) -}}
{{- $quorum := include "quorate.host" (dict "root" .root "component" "quorum") -}}
{{- $controller := include "quorate.host" (dict "root" .root "component" "controller") -}}
{{- $names := list $host "localhost" -}}
{{- if eq .identity "quorum" -}}
{{- $names = concat $names (list (printf "*.%s" $quorum) $controller) -}}
{{- if .root.Values.gateway.enabled -}}
{{- $names = append $names (include "quorate.host" (dict "root" .root "component" "gateway")) -}}
{{- end -}}
{{- else if and (eq .identity "heartbeat") (include "quorate.hasTwoHeartbeats" .root) -}}
{{- $names = append $names (printf "*.%s" (include "quorate.host" (dict "root" .root "component" "heartbeat-pods"))) -}}
{{- else if eq .identity "gateway" -}}
{{- $names = append $names (printf "*.%s" $quorum) -}}
{{- else if hasPrefix "quorum-" .identity -}}
{{- $pod := printf "%s-%s" (include "quorate.fullname" .root) .identity -}}
{{- $names = list $quorum "localhost" (include "quorate.nodeHost" (dict "root" .root "pod" $pod)) $controller -}}
{{- else if hasPrefix "broker-" .identity -}}
{{- $pod := printf "%s-%s" (include "quorate.fullname" .root) .identity -}}
{{- $hosts := list (include "quorate.host" (dict "root" .root "component" "bootstrap")) (include "quorate.host" (dict "root" .root "component" "broker")) -}}
{{- $names = concat (list (first $hosts) "localhost" (include "quorate.brokerHost" (dict "root" .root "pod" $pod))) (rest $hosts) -}}
{{- end -}}
{{- if include "quorate.isClient" .identity -}}
{{- $names = list .identity -}}
{{- else -}}
{{- $names = concat $names .root.Values.tls.extraDnsNames -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* "true" if the nodes show one certificate each, and the gateways one of their own. */}}
{{- define "quorate.showsOwn" -}}
{{- if ne .Values.tls.nodeCertificates "shared" -}}true{{- end -}}
{{- end -}}

{{/* "true" if a certificate that all nodes share is let in. */}}
{{- define "quorate.takesShared" -}}
{{- if ne .Values.tls.nodeCertificates "perNode" -}}true{{- end -}}
{{- end -}}

{{/* An identity as the values have it: of a node, quorum-1, it is quorum, of a broker, broker-100, broker. */}}
{{- define "quorate.identityKey" -}}
{{- regexReplaceAll "^(quorum|broker)-[0-9]+$" . "${1}" -}}
{{- end -}}

{{/* Who shows a certificate. While nodes move to their own, those that have not yet been restarted have the shared one. */}}
{{- define "quorate.identities" -}}
{{ if include "quorate.takesShared" . }}quorum,{{ end }}{{ if include "quorate.showsOwn" . }}{{ range splitList "," (include "quorate.nodeIds" .) }}quorum-{{ . }},{{ end }}{{ if .Values.gateway.enabled }}gateway,{{ end }}{{ end }}{{ if .Values.brokers.enabled }}{{ range splitList "," (include "quorate.brokerIds" .) }}broker-{{ . }},{{ end }}{{ end }}heartbeat,placer,observer,admin{{ if .Values.collector.enabled }},collector{{ end }}{{ if include "quorate.pipeline.isLive" . }},pipeline{{ end }}
{{- end -}}

{{/* "true" for an identity that calls and is not called. */}}
{{- define "quorate.isClient" -}}
{{- if has . (list "admin" "pipeline") -}}true{{- end -}}
{{- end -}}
