package config

import (
	"os"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// Temporal is how to reach Temporal: the SDK's own environment variables and configuration file, read by the SDK.
type Temporal struct {
	// Address is host:port. "" means that nothing names a server; clients then take 127.0.0.1:7233.
	Address string
	// Namespace defaults to "default".
	Namespace string
	// APIKey turns TLS on, unless TEMPORAL_TLS=false.
	APIKey Secret

	options func() (client.Options, error)
}

// ClientOptions returns options for client.Dial, without logger, metrics and data converter. Each call reads the
// certificate files anew.
func (t Temporal) ClientOptions() (client.Options, error) {
	if t.options == nil {
		return client.Options{HostPort: t.Address, Namespace: t.Namespace}, nil
	}
	return t.options()
}

// loadTemporal also returns the secrets that the profile holds, by name.
func loadTemporal(env reader) (Temporal, map[string]string, error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{
		EnvLookup: temporalEnv{env},
		// A dev server must never take credentials or, worse, an address from the file with which its user reaches a
		// production cluster. Naming the file or a profile says that this is wanted.
		DisableFile: env.local && env.get("TEMPORAL_CONFIG_FILE") == "" && env.get("TEMPORAL_PROFILE") == "",
	})
	if err != nil {
		return Temporal{}, nil, err
	}
	if profile.Namespace == "" {
		profile.Namespace = client.DefaultNamespace
	}
	secrets := map[string]string{"TEMPORAL_API_KEY": profile.APIKey}
	if profile.TLS != nil {
		secrets["TEMPORAL_TLS_CLIENT_KEY_DATA"] = string(profile.TLS.ClientKeyData)
	}
	if profile.Codec != nil {
		secrets["TEMPORAL_CODEC_AUTH"] = profile.Codec.Auth
	}
	for name, value := range profile.GRPCMeta {
		// Most headers are routing hints, whose values stand in many a log line.
		if strings.Contains(name, "auth") || strings.Contains(name, "token") || strings.Contains(name, "key") {
			secrets["TEMPORAL_GRPC_META_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = value
		}
	}
	t := Temporal{
		Address:   profile.Address,
		Namespace: profile.Namespace,
		APIKey:    Secret(profile.APIKey),
		options: func() (client.Options, error) {
			return profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
		},
	}
	return t, secrets, nil
}

// temporalEnv shows a reader to the SDK. It counts an empty variable as unset, as mikan does everywhere.
type temporalEnv struct{ reader }

func (e temporalEnv) LookupEnv(name string) (string, bool) {
	value := e.get(name)
	return value, value != ""
}

// Environ lists what the SDK looks for by prefix, the metadata headers. Their names come from the process, for a
// getenv function cannot list any.
func (e temporalEnv) Environ() []string {
	var all []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "TEMPORAL_GRPC_META_") {
			continue
		}
		if value := e.get(name); value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}
