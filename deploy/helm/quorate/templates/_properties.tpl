{{/* The properties files of the services. */}}

{{/*
A dict with given (what the chart sets), settings, where (their key in the values), and ofPod (what each pod's environment
sets, which counts more than a file): a properties file.
*/}}
{{- define "quorate.properties" -}}
{{- $given := .given -}}
{{- range $key, $value := .settings -}}
{{- if hasKey $given $key -}}
{{- fail (printf "%s: the chart sets %s = %v itself; it cannot be changed there" $.where $key (index $given $key)) -}}
{{- end -}}
{{- if has $key ($.ofPod | default list) -}}
{{- fail (printf "%s: the chart sets %s itself, for each pod another; it cannot be changed there" $.where $key) -}}
{{- end -}}
{{- end -}}
{{- $lines := list -}}
{{- range $key, $value := merge (dict) $given .settings -}}
{{- $text := kindIs "float64" $value | ternary (toJson $value) (toString $value) -}}
{{- $lines = append $lines (printf "%s=%s" $key ($text | replace "\\" "\\\\" | replace "\n" "\\n")) -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end -}}

{{- define "quorate.principalMappingRules" -}}
{{- if .Values.tls.principalMappingRules -}}
{{- .Values.tls.principalMappingRules -}}
{{- else if eq .Values.tls.source "certManager" -}}
{{- printf "RULE:^CN=([^,]+),O=%s$/$1/,DEFAULT" (include "quorate.organization" . | replace "." "[.]") -}}
{{- else -}}
RULE:^CN=([^,]+)$/$1/,DEFAULT
{{- end -}}
{{- end -}}

{{/* So that another release with the same issuer is not taken for this one. */}}
{{- define "quorate.organization" -}}
{{- printf "%s.%s" .Release.Namespace (include "quorate.fullname" .) -}}
{{- end -}}

{{/* A dict with root and component: who may call it. */}}
{{- define "quorate.callers" -}}
{{- $who := .root.Values.principals -}}
{{- $people := concat (list $who.admin) $who.superUsers -}}
{{- $callers := concat (list $who.quorum) $people -}}
{{- if has .component (list "quorum" "controller" "gateway") -}}
{{- $callers = concat $callers (list $who.heartbeat $who.observer) -}}
{{- end -}}
{{- if has .component (list "quorum" "heartbeat") -}}
{{- $callers = concat $callers $who.brokers -}}
{{- end -}}
{{- if eq .component "observer" -}}
{{- $callers = concat $callers (list $who.heartbeat $who.placer $who.observer) $who.readers -}}
{{- if include "quorate.pipeline.isLive" .root -}}
{{- $callers = append $callers $who.pipeline -}}
{{- end -}}
{{- if .root.Values.collector.enabled -}}
{{- $callers = append $callers $who.collector -}}
{{- end -}}
{{- end -}}
{{- $callers | uniq | join ";" -}}
{{- end -}}

{{/* A dict with root, component and listener, the name of the only one; or listeners. What every service has. */}}
{{- define "quorate.common" -}}
{{- $addresses := list -}}{{- $protocols := list -}}
{{- $port := index (include "quorate.ports" .root | fromYaml) .component -}}
{{- range .listeners | default (list (dict "name" .listener "port" $port "protocol" "SSL")) -}}
{{- $addresses = append $addresses (printf "%s://0.0.0.0:%v" .name .port) -}}
{{- $protocols = append $protocols (printf "%s:%s" .name .protocol) -}}
{{- end -}}
{{- $health := index (include "quorate.healthPorts" .root | fromYaml) .component -}}
{{- $common := dict
  "listeners" (join "," $addresses)
  "health.listeners" (printf "HEALTH://0.0.0.0:%v" $health)
  "listener.security.protocol.map" (join "," $protocols)
  "ssl.keystore.location" "/etc/quorate/tls/tls-combined.pem"
  "ssl.truststore.location" "/etc/quorate/tls/ca.crt"
  "ssl.client.auth" "required"
  "ssl.principal.mapping.rules" (include "quorate.principalMappingRules" .root)
  "authorizer.class.name" "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
  "super.users" (include "quorate.callers" (dict "root" .root "component" .component))
-}}
{{- toJson $common -}}
{{- end -}}

{{- define "quorate.quorum.properties" -}}
{{- $given := include "quorate.common" (dict "root" . "component" "quorum" "listener" "CONTROLLER") | fromJson -}}
{{- $_ := set $given "metadata.log.dir" "/var/lib/quorate/metadata" -}}
{{- $_ := set $given "controller.quorum.bootstrap.servers" (include "quorate.nodes" (dict "root" . "port" 9093 "named" false)) -}}
{{- $_ := set $given "controller.quorum.auto.join.enable" "true" -}}
{{- with include "quorate.kafkaProtocols" . -}}
{{- $_ := set $given "kafka.listener.security.protocol.map" . -}}
{{- end -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.quorum.settings "where" "quorum.settings" "ofPod" (list "node.id" "advertised.listeners")) -}}
{{- end -}}

{{- define "quorate.controller.properties" -}}
{{- $given := include "quorate.common" (dict "root" . "component" "controller" "listener" "CONTROLLER") | fromJson -}}
{{- $_ := set $given "metadata.log.dir" "/var/lib/quorate/metadata" -}}
{{- $_ := set $given "quorum.endpoint" "localhost:9093" -}}
{{- $_ := set $given "placer.endpoints" (printf "%s:9096" (include "quorate.host" (dict "root" . "component" "placer"))) -}}
{{- $_ := set $given "heartbeat.endpoint" (printf "%s:9095" (include "quorate.host" (dict "root" . "component" "heartbeat"))) -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.quorum.controllerSettings "where" "quorum.controllerSettings" "ofPod" (list "node.id" "advertised.listeners")) -}}
{{- end -}}

{{- define "quorate.gateway.properties" -}}
{{- $given := include "quorate.common" (dict "root" . "component" "gateway" "listeners" (include "quorate.listeners" . | fromJsonArray)) | fromJson -}}
{{- $given = merge $given (include "quorate.listenerProperties" . | fromJson) -}}
{{- $_ := set $given "quorum.endpoint" "localhost:9093" -}}
{{- $_ := set $given "controller.endpoint" "localhost:9094" -}}
{{- $_ := set $given "heartbeat.endpoint" (printf "%s:9095" (include "quorate.host" (dict "root" . "component" "heartbeat"))) -}}
{{- $_ := set $given "grpc.ssl.keystore.location" "/etc/quorate/tls/tls-combined.pem" -}}
{{- $_ := set $given "grpc.ssl.truststore.location" "/etc/quorate/tls/ca.crt" -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.gateway.settings "where" "gateway.settings" "ofPod" (list "node.id")) -}}
{{- end -}}

{{- define "quorate.heartbeat.properties" -}}
{{- $given := include "quorate.common" (dict "root" . "component" "heartbeat" "listener" "HEARTBEAT") | fromJson -}}
{{- $_ := set $given "controller.quorum.bootstrap.servers" (include "quorate.nodes" (dict "root" . "port" 9093 "named" false)) -}}
{{- $_ := set $given "controller.endpoints" (include "quorate.nodes" (dict "root" . "port" 9094 "named" false)) -}}
{{- $_ := set $given "cluster.id" (include "quorate.clusterId" .) -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.heartbeat.settings "where" "heartbeat.settings") -}}
{{- end -}}

{{- define "quorate.placer.properties" -}}
{{- $given := include "quorate.common" (dict "root" . "component" "placer" "listener" "PLACER") | fromJson -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.placer.settings "where" "placer.settings") -}}
{{- end -}}

{{- define "quorate.observer.properties" -}}
{{- $given := include "quorate.common" (dict "root" . "component" "observer" "listener" "OBSERVER") | fromJson -}}
{{- $_ := set $given "node.id" (.Values.observer.nodeId | int64 | toString) -}}
{{- $_ := set $given "connection.max.age.ms" (mul 1000 (int .Values.observer.connectionMaxAgeSeconds)) -}}
{{- $_ := set $given "controller.quorum.bootstrap.servers" (include "quorate.nodes" (dict "root" . "port" 9093 "named" false)) -}}
{{- $_ := set $given "cluster.id" (include "quorate.clusterId" .) -}}
{{- if include "quorate.pipeline.isLive" . -}}
{{- $_ := set $given "observer.log.relay" "true" -}}
{{- end -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.observer.settings "where" "observer.settings") -}}
{{- end -}}
