package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // registers the decoder whose header checkImage reads
	_ "image/jpeg" // same
	_ "image/png"  // same
	"strings"
)

// Image limits of Anthropic's API, the strictest of those we know.
const (
	// maxImageBase64 is the size of one image as the provider counts it, in base64.
	maxImageBase64 = 5 << 20
	// maxImageSide is the longest side in pixels; beyond manyImages images in one request it is maxImageSideMany.
	maxImageSide     = 8000
	maxImageSideMany = 2000
	manyImages       = 20
	// maxImages is the number of images in one request; older ones are left out.
	maxImages = 100
)

// ImageType tells the media type of data by its header, never by its name: a PNG, JPEG, GIF or WebP that every provider
// takes. The error is a sentence that tells why it is none (PDF, HTML saved as .png, too large).
func ImageType(data []byte) (mediaType string, err error) {
	mediaType, _, err = checkImage(data)
	return mediaType, err
}

func checkImage(data []byte) (mediaType string, longestSide int, err error) {
	if len(data) == 0 {
		return "", 0, errors.New("it is empty")
	}
	if n := base64.StdEncoding.EncodedLen(len(data)); n > maxImageBase64 {
		return "", 0, fmt.Errorf("it is too large (%d KB; the limit is %d KB)", len(data)>>10, base64.StdEncoding.DecodedLen(maxImageBase64)>>10)
	}
	var width, height int
	if w, h, ok := webpSize(data); ok {
		mediaType, width, height = "image/webp", w, h
	} else {
		config, format, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			return "", 0, errors.New("it is not a PNG, JPEG, GIF or WebP picture")
		}
		mediaType, width, height = "image/"+format, config.Width, config.Height
	}
	longestSide = max(width, height)
	if min(width, height) <= 0 || longestSide > maxImageSide {
		return "", 0, fmt.Errorf("it measures %d × %d pixels; the limit is %d a side", width, height, maxImageSide)
	}
	return mediaType, longestSide, nil
}

// webpSize reads the size from the header of a WebP file (RFC 9649, section 2).
func webpSize(data []byte) (width, height int, ok bool) {
	if len(data) < 30 || string(data[:4]) != "RIFF" || string(data[8:12]) != "WEBP" {
		return 0, 0, false
	}
	switch string(data[12:16]) {
	case "VP8 ":
		if data[23] != 0x9D || data[24] != 0x01 || data[25] != 0x2A {
			return 0, 0, false
		}
		return int(binary.LittleEndian.Uint16(data[26:]) & 0x3FFF), int(binary.LittleEndian.Uint16(data[28:]) & 0x3FFF), true
	case "VP8L":
		if data[20] != 0x2F {
			return 0, 0, false
		}
		bits := binary.LittleEndian.Uint32(data[21:])
		return int(bits&0x3FFF) + 1, int(bits>>14&0x3FFF) + 1, true
	case "VP8X":
		side := func(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
		return side(data[24:]) + 1, side(data[27:]) + 1, true
	}
	return 0, 0, false
}

func imageNote(reason string) string { return "[A picture was left out: " + reason + ".]" }

func joinNote(text, note string) string {
	if strings.TrimSpace(text) == "" {
		return note
	}
	return text + "\n" + note
}

func dataURL(b Block) string {
	return "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
}
