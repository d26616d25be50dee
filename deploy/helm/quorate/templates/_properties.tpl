{{/* The properties files of the services. */}}

{{/* Properties that come from Secrets, and by which values. A file of SQLite is none. */}}
{{- define "quorate.ofSecrets" -}}
delegation.token.secret.key: delegationTokens.existingSecret
observer.database.url: observer.database.existingSecret
observer.state.database.url: observer.stateDatabase.existingSecret
{{- end -}}

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
{{- with get (include "quorate.ofSecrets" . | fromYaml) $key -}}
{{- if or (ne $key "observer.state.database.url") (contains "@" (toString $value)) -}}
{{- fail (printf "%s: %s is a secret, and who may read ConfigMaps would see it there; set %s" $.where $key .) -}}
{{- end -}}
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

{{/*
A dict with root and component. Who may call everything: people. The release's own processes may call what their code
calls, but Kafka's wire has no such rules: there brokers are super users at each other, and at gateways.
*/}}
{{- define "quorate.superUsers" -}}
{{- $users := concat (list .root.Values.principals.admin) .root.Values.principals.superUsers -}}
{{- if and .root.Values.brokers.enabled (has .component (list "broker" "gateway")) -}}
{{- range $id := splitList "," (include "quorate.brokerIds" .root) -}}
{{- $users = append $users (printf "%s-%s" $.root.Values.principals.broker $id) -}}
{{- end -}}
{{- end -}}
{{- $users | uniq | join ";" -}}
{{- end -}}

{{/* A dict with root and component: principal.process.mapping.rules of those that call it; empty for a gateway. */}}
{{- define "quorate.processRules" -}}
{{- $who := .root.Values.principals -}}{{- $component := .component -}}
{{- $of := list "quorum" "controller" "placer" "heartbeat" "observer" -}}
{{- /* Also while all share one, so that nodes can move to their own. */ -}}
{{- $processes := list (dict "names" (list $who.quorum) "suffix" "-[0-9]+" "process" "quorum+controller" "calls" $of) -}}
{{- if .root.Values.gateway.enabled -}}
{{- $processes = append $processes (dict "names" (list $who.gateway) "process" "gateway" "calls" (list "quorum" "controller" "heartbeat" "observer")) -}}
{{- end -}}
{{- if include "quorate.takesShared" .root -}}
{{- $processes = append $processes (dict "names" (list $who.quorum) "process" (ternary "quorum+controller+gateway" "quorum+controller" .root.Values.gateway.enabled) "calls" $of) -}}
{{- end -}}
{{- $processes = append $processes (dict "names" (list $who.heartbeat) "process" "heartbeat" "calls" (list "quorum" "controller" "observer")) -}}
{{- $processes = append $processes (dict "names" (list $who.placer) "process" "placer" "calls" (list "observer")) -}}
{{- $processes = append $processes (dict "names" (list $who.observer) "process" "observer" "calls" (list "quorum" "observer")) -}}
{{- $processes = append $processes (dict "names" $who.brokers "process" "broker" "calls" (list "quorum" "heartbeat")) -}}
{{- if .root.Values.brokers.enabled -}}
{{- $processes = append $processes (dict "names" (list $who.broker) "suffix" "-[0-9]+" "process" "broker" "calls" (list "quorum" "controller" "heartbeat" "observer")) -}}
{{- end -}}
{{- $processes = append $processes (dict "names" $who.readers "process" "reader" "calls" (list "observer")) -}}
{{- if include "quorate.pipeline.isLive" .root -}}
{{- $processes = append $processes (dict "names" (list $who.pipeline) "process" "pipeline" "calls" (list "observer")) -}}
{{- end -}}
{{- if .root.Values.collector.enabled -}}
{{- $processes = append $processes (dict "names" (list $who.collector) "process" "collector" "calls" (list "observer")) -}}
{{- end -}}
{{- $rules := list -}}
{{- range $each := $processes -}}
{{- if has $component $each.calls -}}
{{- range $each.names -}}
{{- $rules = append $rules (printf "RULE:^%s%s$/%s/" (include "quorate.principalPattern" .) ($each.suffix | default "") $each.process) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join "," $rules -}}
{{- end -}}

{{/* A principal as a part of the pattern of a rule. */}}
{{- define "quorate.principalPattern" -}}
{{- trimPrefix "User:" . | regexQuoteMeta | replace "/" "\\/" -}}
{{- end -}}

{{/*
A dict with root and component: principal.node.id.mapping.rules; empty where none are. A name that ends in the id of a
node of the quorum is that node only for the nodes' own certificates.
*/}}
{{- define "quorate.nodeRules" -}}
{{- $who := .root.Values.principals -}}
{{- $inTheClear := false -}}
{{- range include "quorate.listeners" .root | fromJsonArray -}}
{{- $inTheClear = or $inTheClear (and (eq $.component "gateway") (eq .protocol "PLAINTEXT")) -}}
{{- end -}}
{{- $has := and (has .component (list "quorum" "controller" "heartbeat" "gateway")) (not $inTheClear) (include "quorate.showsOwn" .root) -}}
{{- if $has -}}
{{- $rules := compact (list .root.Values.tls.nodeIdMappingRules) -}}
{{- $rules = append $rules (printf "RULE:^%s-([0-9]+)$/$1/" (include "quorate.principalPattern" $who.quorum)) -}}
{{- if include "quorate.takesShared" .root -}}
{{- $rules = append $rules (printf "RULE:^%s$/*/" (include "quorate.principalPattern" $who.quorum)) -}}
{{- end -}}
{{- if eq .component "quorum" -}}
{{- $rules = append $rules (printf "RULE:^%s$/%d/" (include "quorate.principalPattern" $who.observer) (int64 .root.Values.observer.nodeId)) -}}
{{- end -}}
{{- if eq .component "controller" -}}
{{- $rules = append $rules (printf "RULE:^%s$/*/" (include "quorate.principalPattern" $who.heartbeat)) -}}
{{- end -}}
{{- if and .root.Values.gateway.enabled (has .component (list "quorum" "heartbeat")) -}}
{{- $rules = append $rules (printf "RULE:^%s$/*/" (include "quorate.principalPattern" $who.gateway)) -}}
{{- end -}}
{{- if has .component (list "controller" "heartbeat") -}}
{{- /* `helm test` stands in for a broker. */ -}}
{{- $rules = append $rules (printf "RULE:^%s$/%d/" (include "quorate.principalPattern" $who.admin) (int64 .root.Values.helmTest.brokerId)) -}}
{{- end -}}
{{- $others := printf "(?!0*(?:%s)(?:,|$))([0-9]+)" (include "quorate.nodeIds" .root | replace "," "|") -}}
{{- $rules = append $rules (printf "RULE:^[^,]*-%s(?:,.*)?$/$1/" $others) -}}
{{- join "," $rules -}}
{{- end -}}
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
  "super.users" (include "quorate.superUsers" .)
  "shutdown.graceful.timeout.ms" (mul 1000 (int .root.Values.gracefulShutdownSeconds) | toString)
-}}
{{- with include "quorate.processRules" . -}}
{{- $_ := set $common "principal.process.mapping.rules" . -}}
{{- end -}}
{{- with include "quorate.nodeRules" . -}}
{{- $_ := set $common "principal.node.id.mapping.rules" . -}}
{{- end -}}
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
{{- with include "quorate.kafkaProtocols" . -}}
{{- $_ := set $given "kafka.listener.security.protocol.map" . -}}
{{- end -}}
{{- $_ := set $given "quorum.endpoint" "localhost:9093" -}}
{{- $_ := set $given "placer.endpoints" (printf "%s:9096" (include "quorate.host" (dict "root" . "component" "placer"))) -}}
{{- $_ := set $given "heartbeat.endpoint" (include "quorate.heartbeats" .) -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.quorum.controllerSettings "where" "quorum.controllerSettings" "ofPod" (list "node.id" "advertised.listeners")) -}}
{{- end -}}

{{- define "quorate.gateway.properties" -}}
{{- $given := include "quorate.common" (dict "root" . "component" "gateway" "listeners" (include "quorate.listeners" . | fromJsonArray)) | fromJson -}}
{{- $given = merge $given (include "quorate.listenerProperties" . | fromJson) -}}
{{- $_ := set $given "quorum.endpoint" "localhost:9093" -}}
{{- $_ := set $given "controller.endpoint" "localhost:9094" -}}
{{- $_ := set $given "heartbeat.endpoint" (include "quorate.heartbeats" .) -}}
{{- $_ := set $given "grpc.ssl.keystore.location" "/etc/quorate/tls/tls-combined.pem" -}}
{{- $_ := set $given "grpc.ssl.truststore.location" "/etc/quorate/tls/ca.crt" -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.gateway.settings "where" "gateway.settings" "ofPod" (list "node.id")) -}}
{{- end -}}

{{- define "quorate.broker.properties" -}}
{{- $given := include "quorate.common" (dict "root" . "component" "broker" "listener" "KAFKA") | fromJson -}}
{{- $_ := set $given "process.roles" "broker" -}}
{{- $_ := set $given "log.dirs" "/var/lib/quorate/logs" -}}
{{- $_ := set $given "controller.quorum.bootstrap.servers" (include "quorate.nodes" (dict "root" . "port" 9093 "named" false)) -}}
{{- $_ := set $given "controller.endpoints" (include "quorate.nodes" (dict "root" . "port" 9094 "named" false)) -}}
{{- $_ := set $given "heartbeat.endpoint" (include "quorate.heartbeats" .) -}}
{{- $_ := set $given "grpc.ssl.keystore.location" "/etc/quorate/tls/tls-combined.pem" -}}
{{- $_ := set $given "grpc.ssl.truststore.location" "/etc/quorate/tls/ca.crt" -}}
{{- $_ := set $given "shutdown.graceful.timeout.ms" (mul 1000 (int .Values.brokers.controlledShutdownSeconds) | toString) -}}
{{- with include "quorate.brokerGateways" . -}}
{{- $_ := set $given "gateway.endpoints" . -}}
{{- $_ := set $given "gateway.client.config" "/etc/quorate/gateway-client.properties" -}}
{{- end -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.brokers.settings "where" "brokers.settings" "ofPod" (list "node.id" "advertised.listeners")) -}}
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

{{- define "quorate.observer.stateDirectory" -}}
/var/lib/quorate
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
{{- if .Values.observer.page.enabled -}}
{{- $_ := set $given "observer.page.listener" (printf "PAGE://0.0.0.0:%s" (include "quorate.pagePort" .)) -}}
{{- $_ := set $given "listener.security.protocol.map" (printf "%s,PAGE:SSL" (index $given "listener.security.protocol.map")) -}}
{{- end -}}
{{- if .Values.observer.stateDatabase.volume.enabled -}}
{{- $_ := set $given "observer.state.database.url" (printf "sqlite:///%s/state.db" (include "quorate.observer.stateDirectory" .)) -}}
{{- end -}}
{{- include "quorate.properties" (dict "given" $given "settings" .Values.observer.settings "where" "observer.settings") -}}
{{- end -}}
