{{/* What a schema cannot say: refused before anything changes. */}}
{{- define "quorate.check" -}}
{{- $fullname := include "quorate.fullname" . -}}
{{- $name := printf "%s-quorum" $fullname -}}
{{- $found := lookup "apps/v1" "StatefulSet" .Release.Namespace $name -}}
{{- if $found -}}
{{- $owner := dig "metadata" "annotations" "meta.helm.sh/release-name" "nobody" $found -}}
{{- if ne $owner .Release.Name -}}
{{- fail (printf "the namespace %s has a StatefulSet %s of release %s: two releases cannot share a name, choose another fullnameOverride" .Release.Namespace $name $owner) -}}
{{- end -}}
{{- $first := dig "spec" "ordinals" "start" 0 $found | int -}}
{{- if ne $first (int .Values.quorum.firstNodeId) -}}
{{- fail (printf "quorum.firstNodeId = %d: the quorum was installed with %d, and its nodes keep their ids" (int .Values.quorum.firstNodeId) $first) -}}
{{- end -}}
{{- include "quorate.checkClaims" (dict "found" $found "where" "quorum.storage" "storage" .Values.quorum.storage) -}}
{{- include "quorate.checkMove" (dict "root" . "from" (dig "metadata" "annotations" "quorate/node-certificates" "" $found) "found" $found) -}}
{{- $id := include "quorate.clusterId" . -}}
{{- range dig "spec" "template" "spec" "initContainers" list $found -}}
{{- range .env -}}
{{- if and (eq .name "QUORATE_CLUSTER_ID") (ne .value $id) -}}
{{- fail (printf "clusterId = %s: the quorum was installed with %s, and its volumes keep that id" $id .value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.tls.source "certManager") (not (.Capabilities.APIVersions.Has "cert-manager.io/v1")) -}}
{{- fail "tls.source = certManager: the cluster does not have cert-manager.io/v1; install cert-manager first (for `helm template`: --api-versions cert-manager.io/v1)" -}}
{{- end -}}
{{- if and (not .Values.tls.principalMappingRules) (ne .Values.tls.source "existingSecret") -}}
{{- range $identity := splitList "," (include "quorate.identities" .) -}}
{{- $key := include "quorate.identityKey" $identity -}}
{{- $is := index $.Values.principals $key -}}
{{- if ne $is (printf "User:%s" $key) -}}
{{- fail (printf "principals.%s = %s: the chart's own certificate for it is of User:%s; another name takes tls.principalMappingRules" $key $is $identity) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.collector.enabled -}}
{{- if not .Values.tracing.enabled -}}
{{- fail "collector.enabled = true: tracing.enabled is false, so the services would send no spans to the collector" -}}
{{- end -}}
{{- if .Values.tracing.endpoint -}}
{{- fail (printf "collector.enabled = true: spans go to tracing.endpoint = %s, so the collector would receive none" .Values.tracing.endpoint) -}}
{{- end -}}
{{- if hasKey .Values.collector.exporters "otlp_grpc/observers" -}}
{{- fail "collector.exporters: the chart sets otlp_grpc/observers itself" -}}
{{- end -}}
{{- end -}}
{{- /* quorate.runtime.loop ends a process after 30 s, of which 5 are for calls under way; if these have more, so has it. */ -}}
{{- $ends := add 30 (max 0 (sub (int .Values.gracefulShutdownSeconds) 5)) -}}
{{- range $component := list "quorum" "heartbeat" "placer" "observer" -}}
{{- $grace := int (index $.Values $component).terminationGracePeriodSeconds -}}
{{- $needed := add $.Values.preStopSeconds $ends 6 -}}
{{- if lt $grace (int $needed) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds = %d: a process ends by itself %d s after preStopSeconds = %d, so it must be at least %d" $component $grace $ends (int $.Values.preStopSeconds) $needed) -}}
{{- end -}}
{{- end -}}
{{- if .Values.brokers.enabled -}}
{{- include "quorate.checkBrokers" . -}}
{{- end -}}
{{- if include "quorate.hasTwoHeartbeats" . -}}
{{- /* quorate.liveness.claim has why. */ -}}
{{- $session := index .Values.heartbeat.settings "broker.session.timeout.ms" | default 9000 -}}
{{- if lt (int64 $session) 6000 -}}
{{- fail (printf "heartbeat.settings: broker.session.timeout.ms = %v: with heartbeat.replicas = 2 it must be at least 6000, or brokers would be fenced when one heartbeat service takes over from the other" $session) -}}
{{- end -}}
{{- end -}}
{{- if .Values.gateway.enabled -}}
{{- include "quorate.checkListeners" . -}}
{{- end -}}
{{- include "quorate.checkSecrets" . -}}
{{- if and .Values.pipeline.enabled (eq .Values.pipeline.runner "sparkOperator") -}}
{{- if not (.Capabilities.APIVersions.Has "sparkoperator.k8s.io/v1beta2") -}}
{{- fail "pipeline.runner = sparkOperator: the cluster does not have sparkoperator.k8s.io/v1beta2; install the Kubeflow Spark operator first (for `helm template`: --api-versions sparkoperator.k8s.io/v1beta2), or set cronJob" -}}
{{- end -}}
{{- if include "quorate.pipeline.isLive" . -}}
{{- fail "pipeline.runner = sparkOperator: pipeline.logs.existingClaim is empty; only the runner cronJob can read the release's own observers" -}}
{{- end -}}
{{- if and (not .Values.pipeline.lake.existingClaim) (ne .Values.pipeline.lake.accessMode "ReadWriteMany") -}}
{{- fail (printf "pipeline.lake.accessMode = %s: with pipeline.runner = sparkOperator executors on other hosts write there, too; set ReadWriteMany, or an existingClaim" .Values.pipeline.lake.accessMode) -}}
{{- end -}}
{{- end -}}
{{- with .Values.observer.stateDatabase -}}
{{- if and .volume.enabled .existingSecret -}}
{{- fail (printf "observer.stateDatabase.volume.enabled = true: existingSecret = %s has the URL of another database of the state; an observer keeps one" .existingSecret) -}}
{{- end -}}
{{- end -}}
{{- with .Values.observer.autoscaling -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "observer.autoscaling.minReplicas = %d is above maxReplicas = %d" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
A dict with root and from, what the running nodes were installed with; a chart before this value has installed none. A
pod that shows what those before it do not let in would never be ready, and the rollout would stand still.
*/}}
{{- define "quorate.checkMove" -}}
{{- $steps := list "" "shared" "moving" "perNode" -}}
{{- $to := .root.Values.tls.nodeCertificates -}}
{{- $known := dict "" 0 "shared" 1 "moving" 2 "perNode" 3 -}}
{{- $at := index $known .from | int -}}{{- $wanted := index $known $to | int -}}
{{- if or (gt $wanted (add $at 1 | int)) (gt $at (add $wanted 1 | int)) -}}
{{- $next := index $steps (ternary (add $at 1) (sub $at 1) (gt $wanted $at) | int) -}}
{{- fail (printf "tls.nodeCertificates = %s: the running nodes have %s; a node that is restarted would be refused by the others. Upgrade with %s first" $to (.from | default "one certificate for all, by a chart before this value") $next) -}}
{{- end -}}
{{- $status := .found.status | default dict -}}
{{- $all := dig "spec" "replicas" 1 .found | int -}}
{{- $new := min (dig "updatedReplicas" 0 $status | int) (dig "readyReplicas" 0 $status | int) | int -}}
{{- if and (gt $wanted $at) .found.status (lt $new $all) -}}
{{- fail (printf "tls.nodeCertificates = %s: the rollout of %s has %d of %d nodes; the others would refuse one that is restarted. Wait until `kubectl rollout status statefulset/%s` says that it is complete" $to (.from | default "the present chart") $new $all .found.metadata.name) -}}
{{- end -}}
{{- end -}}

{{/*
A dict with found, a StatefulSet that is there, storage, its values, and where, their key. Kubernetes takes no change of
claim templates, and would say so when half of the release is upgraded. It writes 8192Mi as 8Gi: only sizes in one unit
are compared.
*/}}
{{- define "quorate.checkClaims" -}}
{{- $grow := printf "patch the claims, `kubectl delete statefulset %s --cascade=orphan`, and upgrade with the new values" .found.metadata.name -}}
{{- range dig "spec" "volumeClaimTemplates" list .found -}}
{{- $was := dig "spec" "resources" "requests" "storage" "" . -}}
{{- $is := $.storage.size -}}
{{- if and $was (ne $was $is) (eq (regexReplaceAll "[0-9.]" $was "") (regexReplaceAll "[0-9.]" $is "")) -}}
{{- fail (printf "%s.size = %s: the claims were made with %s, and a StatefulSet keeps its claim templates; to grow them: %s" $.where $is $was $grow) -}}
{{- end -}}
{{- $class := dig "spec" "storageClassName" "" . -}}
{{- if ne $class $.storage.className -}}
{{- fail (printf "%s.className = %q: the claims were made with %q, and a StatefulSet keeps its claim templates" $.where $.storage.className $class) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the schema cannot say of brokers of ours. */}}
{{- define "quorate.checkBrokers" -}}
{{- $first := int .Values.brokers.firstNodeId -}}
{{- $found := lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-broker" (include "quorate.fullname" .)) -}}
{{- $begun := dig "spec" "ordinals" "start" 0 $found | int -}}
{{- if and $found (ne $first $begun) -}}
{{- fail (printf "brokers.firstNodeId = %d: the brokers were installed with %d, and they keep their ids" $first $begun) -}}
{{- end -}}
{{- if $found -}}
{{- include "quorate.checkClaims" (dict "found" $found "where" "brokers.storage" "storage" .Values.brokers.storage) -}}
{{- end -}}
{{- $ids := splitList "," (include "quorate.brokerIds" .) -}}
{{- $others := concat (splitList "," (include "quorate.nodeIds" .)) (list (.Values.observer.nodeId | int64 | toString) (.Values.helmTest.brokerId | int64 | toString)) -}}
{{- range $id := $ids -}}
{{- if has $id $others -}}
{{- fail (printf "brokers.firstNodeId = %d: broker %s would have the id of another node; quorum.firstNodeId, observer.nodeId and helmTest.brokerId say which there are" $first $id) -}}
{{- end -}}
{{- end -}}
{{- $ends := add 30 (max 0 (sub (int .Values.brokers.controlledShutdownSeconds) 5)) -}}
{{- $needed := add .Values.preStopSeconds $ends 6 -}}
{{- if lt (int .Values.brokers.terminationGracePeriodSeconds) (int $needed) -}}
{{- fail (printf "brokers.terminationGracePeriodSeconds = %d: with controlledShutdownSeconds = %d a broker ends by itself %d s after preStopSeconds = %d, so it must be at least %d" (int .Values.brokers.terminationGracePeriodSeconds) (int .Values.brokers.controlledShutdownSeconds) $ends (int .Values.preStopSeconds) $needed) -}}
{{- end -}}
{{- end -}}

{{/* Secrets that are named must exist and have their keys. */}}
{{- define "quorate.checkSecrets" -}}
{{- $pem := dict "keys" (list "tls-combined.pem" "ca.crt") "rule" "tls-combined.pem has a key and then its certificates, ca.crt the authorities" -}}
{{- if eq .Values.tls.source "existingSecret" -}}
{{- range $identity := splitList "," (include "quorate.identities" .) -}}
{{- $name := include "quorate.tlsSecret" (dict "root" $ "identity" $identity) -}}
{{- include "quorate.checkSecret" (merge (dict "root" $ "where" (printf "tls.existingSecrets.%s" (include "quorate.identityKey" $identity)) "name" $name) $pem) -}}
{{- end -}}
{{- end -}}
{{- range $index, $each := include "quorate.listeners" . | fromJsonArray -}}
{{- with .existingSecret -}}
{{- include "quorate.checkSecret" (merge (dict "root" $ "where" (printf "gateway.listeners[%d].existingSecret" $index) "name" .) $pem) -}}
{{- end -}}
{{- with .plainUsers -}}
{{- $where := printf "gateway.listeners[%d].plainUsers.existingSecret" $index -}}
{{- include "quorate.checkSecret" (dict "root" $ "where" $where "name" .existingSecret "keys" (list .key) "rule" "it has the users, as in PlainLoginModule required user_NAME=\"PASSWORD\";") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
A dict with root, where (its key in the values), name, keys, and rule. `helm template` has no cluster, so its lookups find
nothing. The ServiceAccount `default`, which every namespace has, tells this case apart: a user who installs one may also
read it.
*/}}
{{- define "quorate.checkSecret" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $found := lookup "v1" "Secret" $namespace .name -}}
{{- $sees := and .root.Values.serviceAccount.create (lookup "v1" "ServiceAccount" $namespace "default") -}}
{{- if and $sees (not $found) -}}
{{- fail (printf "%s = %s: the namespace %s has no such Secret" .where .name $namespace) -}}
{{- end -}}
{{- if $found -}}
{{- range $key := .keys -}}
{{- if not (dig "data" $key "" $found) -}}
{{- fail (printf "%s = %s: this Secret has no %s; %s" $.where $.name $key $.rule) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "quorate.maxUnavailable" -}}
{{- if kindIs "invalid" .Values.quorum.maxUnavailable -}}
{{- ternary 1 0 (gt (int .Values.quorum.replicas) 2) -}}
{{- else -}}
{{- .Values.quorum.maxUnavailable -}}
{{- end -}}
{{- end -}}
