// Package codec encrypts Temporal payloads. Mikan's payloads hold no content, but ids and model names; an installation
// that wants even those unreadable to whoever runs its Temporal sets MIKAN_CODEC_KEY.
package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/geminixiang/mikan/internal/fault"
)

const encoding = "binary/encrypted"

type aesCodec struct {
	aead cipher.AEAD
}

// New makes a codec from a key of 32 bytes (AES-256-GCM).
func New(key []byte) (converter.PayloadCodec, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "MIKAN_CODEC_KEY is not 32 bytes long")
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "AES-GCM is not available")
	}
	return aesCodec{aead}, nil
}

// Encode encrypts whole payloads, metadata included.
func (c aesCodec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, c.aead.NonceSize())
		_, _ = rand.Read(nonce) // never fails: crypto/rand ends the process instead
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)},
			Data:     c.aead.Seal(nonce, nonce, plain, nil),
		}
	}
	return out, nil
}

// Decode decrypts what Encode made, and leaves payloads from before encryption as they are.
func (c aesCodec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encoding {
			out[i] = p
			continue
		}
		size := c.aead.NonceSize()
		if len(p.Data) < size {
			return nil, fault.New(fault.Invalid, "an encrypted payload is too short")
		}
		plain, err := c.aead.Open(nil, p.Data[:size], p.Data[size:], nil)
		if err != nil {
			return nil, fault.New(fault.Forbidden, "an encrypted payload does not fit MIKAN_CODEC_KEY")
		}
		out[i] = &commonpb.Payload{}
		if err := proto.Unmarshal(plain, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
