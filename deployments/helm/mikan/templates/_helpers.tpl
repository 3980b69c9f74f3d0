{{- define "mikan.labels" -}}
app.kubernetes.io/name: mikan
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "mikan.tag" -}}
{{- .Values.image.tag | default .Chart.AppVersion -}}
{{- end }}

{{- define "mikan.image" -}}
image: "{{ .Values.image.repository }}:{{ include "mikan.tag" . }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* The variables of every process. */}}
{{- define "mikan.env" -}}
- {name: TEMPORAL_ADDRESS, value: {{ .Values.temporal.address | quote }}}
- {name: TEMPORAL_NAMESPACE, value: {{ .Values.temporal.namespace | quote }}}
- {name: MIKAN_TASK_QUEUE, value: {{ .Values.taskQueue | quote }}}
{{- if .Values.config }}
- {name: MIKAN_CONFIG, value: /etc/mikan/config.yaml}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mikan.versioning" -}}
{{- with .Values.versioning }}
{{- if .deployment }}
- {name: MIKAN_DEPLOYMENT, value: {{ .deployment | quote }}}
- {name: MIKAN_BUILD_ID, value: {{ .buildId | default (include "mikan.tag" $) | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{/* A change of the configuration restarts the processes that read it. */}}
{{- define "mikan.annotations" -}}
checksum/config: {{ toJson .Values.config | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mikan.probes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end }}

{{- define "mikan.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}
