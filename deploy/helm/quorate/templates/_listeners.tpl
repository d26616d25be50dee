{{/* The gateways' listeners (KIP-103). All that there is for each listener is made of the list that is put together here. */}}

{{/*
A JSON list with all that a listener has, what the values leave out filled in; empty without gateways. The port's name
follows from its number, so that it stays the same whatever comes before it in the list; 9092 has that of the container.
*/}}
{{- define "quorate.listeners" -}}
{{- $listeners := list -}}
{{- range ternary .Values.gateway.listeners list .Values.gateway.enabled -}}
{{- $protocol := .protocol | default "SSL" -}}
{{- $listener := dict
  "name" (upper .name)
  "port" (int .port)
  "portName" (ternary "gateway" (printf "gateway-%d" (int .port)) (eq 9092 (int .port)))
  "protocol" $protocol
  "isTls" (hasSuffix "SSL" $protocol)
  "isSasl" (hasPrefix "SASL_" $protocol)
  "clientAuth" (.clientAuth | default (ternary "required" "none" (eq $protocol "SSL")))
  "saslMechanisms" (.saslMechanisms | default list)
  "plainUsers" (ternary dict (merge (dict) (.plainUsers | default dict) (dict "key" "sasl.jaas.config")) (empty .plainUsers))
  "existingSecret" (.existingSecret | default "")
  "directory" (printf "/etc/quorate/listeners/%s" (lower .name))
  "peers" (ternary .networkPolicyPeers (concat $.Values.networkPolicy.clients $.Values.networkPolicy.brokers) (hasKey . "networkPolicyPeers"))
  "prefix" (printf "listener.name.%s." (lower .name))
  "settings" (.settings | default dict)
-}}
{{- with .maxConnections -}}
{{- $_ := set $listener "maxConnections" (int .) -}}
{{- end -}}
{{- $listeners = append $listeners $listener -}}
{{- end -}}
{{- toJson $listeners -}}
{{- end -}}

{{/* Properties that have a key of their own in a listener's values. */}}
{{- define "quorate.listenerKeys" -}}
sasl.enabled.mechanisms: saslMechanisms
plain.sasl.jaas.config: plainUsers
max.connections: maxConnections
ssl.client.auth: clientAuth
ssl.keystore.location: existingSecret
ssl.truststore.location: existingSecret
{{- end -}}

{{/* The properties of all listeners, beside those that every service has, as a JSON object. */}}
{{- define "quorate.listenerProperties" -}}
{{- $root := . -}}
{{- $listeners := include "quorate.listeners" . | fromJsonArray -}}
{{- $given := dict -}}
{{- $voters := list -}}
{{- range $listeners -}}
{{- $prefix := .prefix -}}
{{- $named := ternary .name "" (gt (len $listeners) 1) -}}
{{- $voters = append $voters (include "quorate.nodes" (dict "root" $root "port" .port "named" true "listener" $named)) -}}
{{- if and .isTls (ne .clientAuth "required") -}}
{{- $_ := set $given (printf "%sssl.client.auth" $prefix) .clientAuth -}}
{{- end -}}
{{- if .existingSecret -}}
{{- $_ := set $given (printf "%sssl.keystore.location" $prefix) (printf "%s/tls-combined.pem" .directory) -}}
{{- $_ := set $given (printf "%sssl.truststore.location" $prefix) (printf "%s/ca.crt" .directory) -}}
{{- /* Its authorities are not the release's: a common name of theirs, such as admin, is not one of the release. */ -}}
{{- $_ := set $given (printf "%sssl.principal.mapping.rules" $prefix) "DEFAULT" -}}
{{- end -}}
{{- with .saslMechanisms -}}
{{- $_ := set $given (printf "%ssasl.enabled.mechanisms" $prefix) (join "," .) -}}
{{- end -}}
{{- with .maxConnections -}}
{{- $_ := set $given (printf "%smax.connections" $prefix) . -}}
{{- end -}}
{{- range $key, $value := .settings -}}
{{- $_ := set $given (printf "%s%s" $prefix $key) $value -}}
{{- end -}}
{{- end -}}
{{- $_ := set $given "controller.quorum.voters" (join "," $voters) -}}
{{- toJson $given -}}
{{- end -}}

{{/* The users of PLAIN, which are no part of a file that everybody may read. */}}
{{- define "quorate.listenerEnv" -}}
{{- range include "quorate.listeners" . | fromJsonArray -}}
{{- $prefix := .prefix -}}
{{- with .plainUsers }}
- name: {{ printf "quorate_%splain_sasl_jaas_config" $prefix | replace "." "_" | upper }}
  valueFrom:
    secretKeyRef: {name: {{ .existingSecret | quote }}, key: {{ .key | quote }}}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "quorate.listenerMounts" -}}
{{- range include "quorate.listeners" . | fromJsonArray -}}
{{- if .existingSecret }}
- name: tls-{{ .portName }}
  mountPath: {{ .directory }}
  readOnly: true
{{- end }}
{{- end -}}
{{- end -}}

{{- define "quorate.listenerVolumes" -}}
{{- range include "quorate.listeners" . | fromJsonArray -}}
{{- if .existingSecret }}
- name: tls-{{ .portName }}
  secret:
    secretName: {{ .existingSecret | quote }}
    defaultMode: 0440
{{- end }}
{{- end -}}
{{- end -}}

{{/* Ports of a Service. */}}
{{- define "quorate.listenerPorts" -}}
{{- range include "quorate.listeners" . | fromJsonArray }}
- name: {{ .portName }}
  port: {{ .port }}
  targetPort: {{ .portName }}
{{- end }}
{{- end -}}

{{/* What the schema cannot say of the listeners. */}}
{{- define "quorate.checkListeners" -}}
{{- if not .Values.gateway.listeners -}}
{{- fail "gateway.listeners is missing: with gateway.enabled = true it has one listener at least; an upgrade from a chart without this key takes --reset-then-reuse-values in place of --reuse-values" -}}
{{- end -}}
{{- $keys := include "quorate.listenerKeys" . | fromYaml -}}
{{- range $key, $_ := .Values.gateway.settings -}}
{{- if hasPrefix "listener.name." $key -}}
{{- fail (printf "gateway.settings: %s is of one listener; it is set without the prefix in gateway.listeners[].settings, or by a key of gateway.listeners[] itself" $key) -}}
{{- end -}}
{{- if has $key (list "sasl.enabled.mechanisms" "plain.sasl.jaas.config") -}}
{{- fail (printf "gateway.settings: %s is set for each listener, as gateway.listeners[].%s" $key (index $keys $key)) -}}
{{- end -}}
{{- end -}}
{{- $taken := dict -}}
{{- range $table := list "quorate.ports" "quorate.healthPorts" "quorate.metricsPorts" -}}
{{- $ports := include $table $ | fromYaml -}}
{{- range $service := list "quorum" "controller" "gateway" -}}
{{- with index $ports $service -}}
{{- $_ := set $taken (toString .) (printf "of the container %s of the same pod" $service) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names := dict "CONTROLLER" "the nodes' own listener, for gRPC," -}}
{{- range $index, $each := include "quorate.listeners" . | fromJsonArray -}}
{{- $where := printf "gateway.listeners[%d]" $index -}}
{{- with index $names .name -}}
{{- fail (printf "%s.name = %s: %s has it; names differ by more than small and capital letters" $where $each.name .) -}}
{{- end -}}
{{- $_ := set $names .name $where -}}
{{- with index $taken (toString .port) -}}
{{- fail (printf "%s.port = %v: is a port %s; ports differ" $where $each.port .) -}}
{{- end -}}
{{- $_ := set $taken (toString .port) (printf "of %s" $where) -}}
{{- include "quorate.checkListener" (dict "where" $where "listener" . "given" (index $.Values.gateway.listeners $index) "keys" $keys) -}}
{{- end -}}
{{- end -}}

{{/* A dict with where (its place in the values), listener, given (what the values have), and keys. */}}
{{- define "quorate.checkListener" -}}
{{- $where := .where -}}{{- $it := .listener -}}
{{- $by := printf "%s.protocol = %s" $where $it.protocol -}}
{{- if and $it.isSasl (not $it.saslMechanisms) -}}
{{- fail (printf "%s: saslMechanisms is empty; clients log in by one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512" $by) -}}
{{- end -}}
{{- if and (not $it.isSasl) $it.saslMechanisms -}}
{{- fail (printf "%s.saslMechanisms = %s: has no effect with protocol = %s; logins take SASL_SSL" $where (join "," $it.saslMechanisms) $it.protocol) -}}
{{- end -}}
{{- if and (has "PLAIN" $it.saslMechanisms) (not $it.plainUsers) -}}
{{- fail (printf "%s.saslMechanisms = %s: PLAIN takes plainUsers.existingSecret, a Secret with the users and their passwords" $where (join "," $it.saslMechanisms)) -}}
{{- end -}}
{{- if and $it.plainUsers (not (has "PLAIN" $it.saslMechanisms)) -}}
{{- fail (printf "%s.plainUsers.existingSecret = %s: has no effect, as saslMechanisms has no PLAIN" $where $it.plainUsers.existingSecret) -}}
{{- end -}}
{{- range $key := list "clientAuth" "existingSecret" -}}
{{- if and (not $it.isTls) (index $.given $key) -}}
{{- fail (printf "%s.%s = %s: has no effect with protocol = %s, which has no TLS" $where $key (index $.given $key) $it.protocol) -}}
{{- end -}}
{{- end -}}
{{- range $key, $_ := $it.settings -}}
{{- with index $.keys $key -}}
{{- fail (printf "%s.settings: %s is set as %s.%s" $where $key $where .) -}}
{{- end -}}
{{- if hasPrefix "listener.name." $key -}}
{{- fail (printf "%s.settings: %s is set without %s before it" $where $key $it.prefix) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
A dict with root and service: where others reach the service of one pod. A quorum node and a controller announce their
gateway, too: Kafka's nodes find voters and controllers in the log, and look there for the listener of the name that they
know. The own listener's name, CONTROLLER, is none of the gateways': a controller of a release before finds the active one
by it, and takes one without it for Kafka's own, so another name would end forwarding during an upgrade.
*/}}
{{- define "quorate.advertised" -}}
{{- $host := include "quorate.nodeHost" (dict "root" .root "pod" "$(POD_NAME)") -}}
{{- $addresses := list (printf "CONTROLLER://%s:%v" $host (index (include "quorate.ports" .root | fromYaml) .service)) -}}
{{- range include "quorate.listeners" .root | fromJsonArray -}}
{{- $addresses = append $addresses (printf "%s://%s:%v" .name $host .port) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}

{{/* A dict with root: where clients and other brokers reach the broker of one pod. */}}
{{- define "quorate.brokerAdvertised" -}}
{{- $port := index (include "quorate.ports" .root | fromYaml) "broker" -}}
{{- printf "KAFKA://%s:%v" (include "quorate.brokerHost" (dict "root" .root "pod" "$(POD_NAME)")) $port -}}
{{- end -}}

{{/* What is spoken at the gateways' listeners, as a property of the quorum nodes that announce them; empty without any. */}}
{{- define "quorate.kafkaProtocols" -}}
{{- $protocols := list -}}
{{- range include "quorate.listeners" . | fromJsonArray -}}
{{- $protocols = append $protocols (printf "%s:%s" .name .protocol) -}}
{{- end -}}
{{- join "," $protocols -}}
{{- end -}}
