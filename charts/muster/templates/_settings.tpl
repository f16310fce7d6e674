{{- /* Peers of a NetworkPolicy that are every pod of the cluster, and the default of `networkPolicy.to`. */ -}}
{{- define "muster.wholeCluster" -}}
{{- list (dict "namespaceSelector" dict) | toJson -}}
{{- end -}}

{{- /* Whether there is more than one replica at times. */ -}}
{{- define "muster.isReplicated" -}}
{{- $most := ternary .Values.autoscaling.maxReplicas .Values.replicaCount .Values.autoscaling.enabled -}}
{{- if gt (int $most) 1 }}true{{ end -}}
{{- end -}}

{{- /* Whether sessions are in Valkey, by the values or by `muster.config`. */ -}}
{{- define "muster.hasValkey" -}}
{{- $settings := include "muster.mergedSettings" . | fromYaml -}}
{{- $logins := dig "aggregator" "oauth" "server" "storage" "type" "memory" $settings -}}
{{- if or (eq $logins "valkey") (dig "replicas" "valkey" "url" "" $settings) }}true{{ end -}}
{{- end -}}

{{- /* Whether what is stored is encrypted. */ -}}
{{- define "muster.hasEncryptionKey" -}}
{{- $server := .Values.muster.oauth.server -}}
{{- if and $server.encryptionKey (or $server.enabled (include "muster.hasValkey" .)) }}true{{ end -}}
{{- end -}}

{{- /* Whether the gateway has a password for Valkey. */ -}}
{{- define "muster.hasValkeyPassword" -}}
{{- $external := .Values.muster.oauth.server.storage -}}
{{- if or .Values.valkey.enabled (and (eq $external.type "valkey") (or $external.valkey.existingSecret $external.valkey.password)) }}true{{ end -}}
{{- end -}}

{{- /* Where sessions and logins are stored, as in config.yaml. */ -}}
{{- define "muster.storage" -}}
{{- $external := .Values.muster.oauth.server.storage -}}
{{- if .Values.valkey.enabled -}}
type: valkey
valkey:
  url: {{ printf "%s.%s.svc:6379" (include "muster.valkey.fullname" .) .Release.Namespace }}
  passwordFile: /run/secrets/muster/valkey-password
{{- else if eq $external.type "valkey" -}}
type: valkey
valkey:
  url: {{ required "`muster.oauth.server.storage.valkey.url` is empty: set the host and port of your Valkey, or `valkey.enabled` for one of this chart" $external.valkey.url | quote }}
  {{- if include "muster.hasValkeyPassword" . }}
  passwordFile: /run/secrets/muster/valkey-password
  {{- end }}
  tlsEnabled: {{ $external.valkey.tls.enabled }}
  {{- with $external.valkey.tls.serverName }}
  tlsServerName: {{ . | quote }}
  {{- end }}
  {{- with $external.valkey.keyPrefix }}
  keyPrefix: {{ . | quote }}
  {{- end }}
  db: {{ $external.valkey.db }}
  {{- if $external.valkey.cluster }}
  clusterEnabled: true
  {{- end }}
{{- else -}}
type: memory
{{- end -}}
{{- end -}}

{{- /* Host names by which clients reach a gateway without logins. */ -}}
{{- define "muster.hosts" -}}
{{- $name := include "muster.fullname" . -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if .Values.ingress.enabled -}}
{{- range .Values.ingress.hosts }}{{ $hosts = append $hosts .host }}{{ end -}}
{{- end -}}
{{- if .Values.gatewayAPI.httpRoute.enabled -}}
{{- $hosts = concat $hosts .Values.gatewayAPI.httpRoute.hostnames -}}
{{- end -}}
{{- toYaml ($hosts | uniq) -}}
{{- end -}}

{{- /* What the values say of config.yaml. */ -}}
{{- define "muster.settingsOfValues" -}}
{{- $muster := .Values.muster -}}
{{- $server := $muster.oauth.server -}}
{{- $client := $muster.oauth.mcpClient -}}
kubernetes: {{ $muster.kubernetes }}
namespace: {{ include "muster.namespace" . }}
aggregator:
  host: {{ $muster.aggregator.host | quote }}
  port: {{ $muster.aggregator.port }}
  transport: {{ $muster.aggregator.transport }}
  drainTimeout: {{ $muster.aggregator.drainTimeout }}
  {{- with $muster.aggregator.musterPrefix }}
  musterPrefix: {{ . | quote }}
  {{- end }}
  oauth:
    server:
      enabled: {{ $server.enabled }}
      storage:
        {{- include "muster.storage" . | nindent 8 }}
      {{- if $server.enabled }}
      baseUrl: {{ $server.baseUrl | quote }}
      provider: {{ $server.provider }}
      {{- if eq $server.provider "google" }}
      google:
        clientId: {{ $server.google.clientId | quote }}
        clientSecretFile: /run/secrets/muster/client-secret
      {{- else }}
      dex:
        issuerUrl: {{ $server.dex.issuerUrl | quote }}
        clientId: {{ $server.dex.clientId | quote }}
        clientSecretFile: /run/secrets/muster/client-secret
        {{- with $server.dex.connectorId }}
        connectorId: {{ . | quote }}
        {{- end }}
        allowPrivateIPOIDC: {{ $server.dex.allowPrivateIPOIDC }}
      {{- end }}
      {{- if $server.encryptionKey }}
      encryptionKeyFile: /run/secrets/muster/encryption-key
      {{- end }}
      {{- if $server.registrationToken }}
      registrationTokenFile: /run/secrets/muster/registration-token
      {{- end }}
      allowPublicClientRegistration: {{ $server.allowPublicClientRegistration }}
      {{- range $key := list "trustedPublicRegistrationSchemes" "trustedAudiences" "trustedProxyCIDRs" }}
      {{- with index $server $key }}
      {{ $key }}: {{ toJson . }}
      {{- end }}
      {{- end }}
      {{- end }}
    {{- if $client.enabled }}
    mcpClient:
      enabled: true
      publicUrl: {{ default $server.baseUrl $client.publicUrl | quote }}
      {{- with $client.clientId }}
      clientId: {{ . | quote }}
      {{- end }}
      {{- with $client.callbackPath }}
      callbackPath: {{ . | quote }}
      {{- end }}
      {{- if $client.existingSecret }}
      clientSecretFile: /run/secrets/muster/mcp-client-secret
      {{- end }}
    {{- end }}
access:
  # A service mesh or sidecar connects from within the pod, under its own user ID.
  mode: token
  allowedHosts:
    {{- include "muster.hosts" . | nindent 4 }}
{{- $metrics := $muster.observability.metrics }}
{{- if eq $metrics.exporter "prometheus" }}
metrics:
  tokens: {{ toJson $metrics.prometheus.tokens }}
{{- end }}
{{- end -}}

{{- /* What the values and `muster.config` say of config.yaml. */ -}}
{{- define "muster.mergedSettings" -}}
{{- $settings := include "muster.settingsOfValues" . | fromYaml -}}
{{- toYaml (mergeOverwrite $settings (dict "access" .Values.muster.access) .Values.muster.config) -}}
{{- end -}}

{{- /* The whole config.yaml. */ -}}
{{- define "muster.settings" -}}
{{- $settings := include "muster.mergedSettings" . | fromYaml -}}
{{- if include "muster.hasValkey" . -}}
{{- /* Also with one replica: while it is replaced there are two, and its sessions move. */ -}}
{{- $replicas := dict "enabled" true -}}
{{- $given := get $settings "replicas" | default dict -}}
{{- if and (include "muster.hasEncryptionKey" .) (not (or $given.encryptionKey $given.encryptionKeyFile)) -}}
{{- $_ := set $replicas "encryptionKeyFile" "/run/secrets/muster/encryption-key" -}}
{{- end -}}
{{- $_ := set $settings "replicas" (mergeOverwrite $replicas $given) -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{- /* Fails for values that would give a gateway that is open, or that cannot work. */ -}}
{{- define "muster.validate" -}}
{{- $muster := .Values.muster -}}
{{- $server := $muster.oauth.server -}}
{{- $settings := include "muster.settings" . | fromYaml -}}
{{- $hasLogins := dig "aggregator" "oauth" "server" "enabled" false $settings -}}
{{- $isOpen := dig "access" "insecureBind" false $settings -}}
{{- if not (or $hasLogins $muster.tokens.existingSecret $isOpen) -}}
{{- fail "nobody could use this gateway: neither logins nor tokens are configured\nhint: set `muster.oauth.server.enabled`, `baseUrl` and a provider to require logins\nhint: or set `muster.tokens.existingSecret` to a Secret with the `tokens.json` of `muster token create`\nhint: or set `muster.access.insecureBind: true` to let everybody who reaches the Service call tools" -}}
{{- end -}}
{{- if $server.enabled -}}
{{- $_ := required "`muster.oauth.server.baseUrl` is empty: set the URL by which clients reach the gateway" $server.baseUrl -}}
{{- if eq $server.provider "google" -}}
{{- $_ := required "`muster.oauth.server.google.clientId` is empty" $server.google.clientId -}}
{{- if not (or $server.existingSecret $server.google.clientSecret) -}}
{{- fail "the client secret of Google is missing\nhint: set `muster.oauth.server.existingSecret` to a Secret that has it" -}}
{{- end -}}
{{- else -}}
{{- $_ := required "`muster.oauth.server.dex.issuerUrl` is empty: set the issuer of your identity provider" $server.dex.issuerUrl -}}
{{- $_ := required "`muster.oauth.server.dex.clientId` is empty" $server.dex.clientId -}}
{{- if not (or $server.existingSecret $server.dex.clientSecret) -}}
{{- fail "the client secret of the identity provider is missing\nhint: set `muster.oauth.server.existingSecret` to a Secret that has it" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $muster.oauth.mcpClient.enabled (not (or $muster.oauth.mcpClient.publicUrl $server.baseUrl)) -}}
{{- fail "`muster.oauth.mcpClient.publicUrl` is empty: set the URL by which browsers reach the gateway" -}}
{{- end -}}
{{- if and .Values.valkey.enabled (eq $server.storage.type "valkey") -}}
{{- fail "there are two Valkeys: that of `valkey.enabled`, and that of `muster.oauth.server.storage`\nhint: leave one of them out" -}}
{{- end -}}
{{- if eq .Values.networkPolicy.flavor "cilium" -}}
{{- range $key := list "from" "to" -}}
{{- if ne (toJson (index $.Values.networkPolicy $key)) (include "muster.wholeCluster" $) -}}
{{- range $peer := index $.Values.networkPolicy $key -}}
{{- range $field := keys $peer -}}
{{- if not (has $field (list "matchLabels" "matchExpressions")) -}}
{{- fail (printf "`networkPolicy.%s` has `%s`: with `flavor: cilium` its entries are endpoint selectors, with `matchLabels` or `matchExpressions`" $key $field) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $path := list "aggregator.oauth.server.encryptionKey" "aggregator.oauth.server.registrationToken" "aggregator.oauth.server.dex.clientSecret" "aggregator.oauth.server.google.clientSecret" "aggregator.oauth.server.storage.valkey.password" "aggregator.oauth.mcpClient.clientSecret" "replicas.encryptionKey" "replicas.valkey.password" -}}
{{- $value := $settings -}}
{{- range $key := splitList "." $path -}}
{{- if kindIs "map" $value -}}
{{- $value = get $value $key -}}
{{- else -}}
{{- $value = "" -}}
{{- end -}}
{{- end -}}
{{- if $value -}}
{{- fail (printf "`muster.config.%s` would be readable in the ConfigMap\nhint: set `%sFile` to a file that `extraVolumes` mounts from a Secret" $path $path) -}}
{{- end -}}
{{- end -}}
{{- if and $muster.extraCaFile.secret.name (has (dir $muster.extraCaFile.path) (list "." "/" "/etc" "/etc/muster" "/etc/ssl" "/etc/ssl/certs" "/run/secrets/muster" "/state" "/tmp" "/var/run/secrets/kubernetes.io/serviceaccount")) -}}
{{- fail (printf "`muster.extraCaFile.path` is in `%s`, which the certificates would hide\nhint: name a folder of its own, as in `/etc/muster-ca/ca.crt`" (dir $muster.extraCaFile.path)) -}}
{{- end -}}
{{- $replicas := get $settings "replicas" | default dict -}}
{{- if and (or (include "muster.isReplicated" .) $replicas.enabled) (not (include "muster.hasValkey" .)) -}}
{{- fail "more than one replica needs a Valkey, in which they share sessions and logins\nhint: set `valkey.enabled`, or `muster.oauth.server.storage` to your own\nhint: or set `replicaCount: 1` and `autoscaling.enabled: false`" -}}
{{- end -}}
{{- if and (include "muster.isReplicated" .) (not $replicas.enabled) -}}
{{- fail "`muster.config.replicas.enabled` is false, but there is more than one replica: each would know its own sessions only\nhint: leave it out\nhint: or set `replicaCount: 1` and `autoscaling.enabled: false`" -}}
{{- end -}}
{{- if $replicas.enabled -}}
{{- $login := dig "aggregator" "oauth" "server" dict $settings -}}
{{- if not (or $replicas.encryptionKeyFile $login.encryptionKeyFile) -}}
{{- fail "what replicas share in Valkey is encrypted, but there is no key\nhint: leave `muster.oauth.server.encryptionKey` at `true`\nhint: or set `muster.config.replicas.encryptionKeyFile` to a file that `extraVolumes` mounts" -}}
{{- end -}}
{{- if and $hasLogins (ne (dig "storage" "type" "memory" $login) "valkey") -}}
{{- fail "replicas share no logins: these are in the memory of each\nhint: set `muster.oauth.server.storage` to your Valkey, or `valkey.enabled`" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail (printf "`autoscaling.minReplicas` is %d, more than `autoscaling.maxReplicas`, %d" (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- end -}}
{{- if and $muster.observability.otel.endpoint (ne $muster.observability.otel.protocol "http/json") -}}
{{- fail (printf "`muster.observability.otel.protocol` is `%s`: muster sends traces over OTLP/HTTP with JSON\nhint: set `endpoint` to the HTTP port of the collector (4318), and `protocol: http/json`" $muster.observability.otel.protocol) -}}
{{- end -}}
{{- $metrics := $muster.observability.metrics -}}
{{- if $metrics.prometheus.serviceMonitor.enabled -}}
{{- if ne $metrics.exporter "prometheus" -}}
{{- fail "a ServiceMonitor needs `muster.observability.metrics.exporter: prometheus`" -}}
{{- end -}}
{{- if not $metrics.prometheus.serviceMonitor.tokenSecret.name -}}
{{- fail "Prometheus needs a token to read the metrics\nhint: create it with `muster token create prometheus`, store it in a Secret, and name that in `muster.observability.metrics.prometheus.serviceMonitor.tokenSecret.name`" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "`ingress.hosts` is empty: name the host of the gateway" -}}
{{- end -}}
{{- if and .Values.gatewayAPI.httpRoute.enabled (not .Values.gatewayAPI.httpRoute.parentRefs) -}}
{{- fail "`gatewayAPI.httpRoute.parentRefs` is empty: name the Gateway that serves the route" -}}
{{- end -}}
{{- end -}}

{{- /* The secrets that are written in the values. Those in Secrets of others, and generated ones, are not known here. */ -}}
{{- define "muster.givenSecrets" -}}
{{- $oauth := .Values.muster.oauth -}}
{{- $server := $oauth.server -}}
{{- $given := list $server.dex.clientSecret $server.google.clientSecret $server.encryptionKey $server.registrationToken -}}
{{- toJson (concat $given (list $server.storage.valkey.password .Values.valkey.auth.password .Values.muster.observability.otel.headers)) -}}
{{- end -}}

{{- /* Whether any secret is mounted as a file. */ -}}
{{- define "muster.hasSecrets" -}}
{{- $oauth := .Values.muster.oauth -}}
{{- if or $oauth.server.enabled (include "muster.hasEncryptionKey" .) (include "muster.hasValkeyPassword" .) (and $oauth.mcpClient.enabled $oauth.mcpClient.existingSecret) }}true{{ end -}}
{{- end -}}
