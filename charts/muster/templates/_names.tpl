{{- /* The name of the chart's objects, at most 50 characters so that suffixes fit. */ -}}
{{- define "muster.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "muster.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "muster.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "muster.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "muster.selectorLabels" -}}
app.kubernetes.io/name: {{ include "muster.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "muster.valkey.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "muster.valkey.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "muster.valkey.selectorLabels" -}}
app.kubernetes.io/name: {{ include "muster.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: valkey
{{- end -}}

{{- define "muster.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "muster.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* An image from `registry`, `repository`, `tag` and `digest`. */ -}}
{{- define "muster.image" -}}
{{- $registry := ternary (printf "%s/" .registry) "" (not (empty .registry)) -}}
{{- $version := ternary (printf "@%s" .digest) (printf ":%s" .tag) (not (empty .digest)) -}}
{{- printf "%s%s%s" $registry .repository $version -}}
{{- end -}}

{{- /* The namespace of the resources that the gateway reads. */ -}}
{{- define "muster.namespace" -}}
{{- default .Release.Namespace .Values.muster.namespace -}}
{{- end -}}

{{- /* The Secrets that the gateway's secrets are in. */ -}}
{{- define "muster.oauthSecretName" -}}
{{- default (printf "%s-oauth" (include "muster.fullname" .)) .Values.muster.oauth.server.existingSecret -}}
{{- end -}}

{{- define "muster.valkey.fullname" -}}
{{- printf "%s-valkey" (include "muster.fullname" .) -}}
{{- end -}}

{{- define "muster.valkey.secretName" -}}
{{- if .Values.valkey.enabled -}}
{{- default (include "muster.valkey.fullname" .) .Values.valkey.auth.existingSecret -}}
{{- else -}}
{{- default (include "muster.valkey.fullname" .) .Values.muster.oauth.server.storage.valkey.existingSecret -}}
{{- end -}}
{{- end -}}

{{- define "muster.valkey.secretKey" -}}
{{- ternary .Values.valkey.auth.secretKeyPassword .Values.muster.oauth.server.storage.valkey.secretKeyPassword .Values.valkey.enabled -}}
{{- end -}}
