package llm

import "fmt"

// images looks at every picture of the repaired messages, newest first, since the newest are the ones worth their place.
func (r *repair) images() {
	total := 0
	r.eachImage(func(b Block) {
		if inspect(b).why == "" {
			total++
		}
	})
	kept := 0
	r.replaceImages(func(b Block) (Block, string) {
		p := inspect(b)
		switch {
		case p.why != "":
			return b, p.why
		case kept >= maxImages:
			return b, fmt.Sprintf("only the last %d pictures are shown", maxImages)
		case total > manyImages && p.side > maxImageSideMany:
			return b, fmt.Sprintf("it is more than %d pixels a side, too large among more than %d pictures", maxImageSideMany, manyImages)
		}
		kept++
		b.Kind, b.MediaType = BlockImage, p.mediaType
		return b, ""
	})
}

type picture struct {
	mediaType string
	side      int
	why       string // why it cannot be sent; "" = it can
}

func inspect(b Block) picture {
	mediaType, side, err := checkImage(b.Data)
	if err != nil {
		return picture{why: err.Error()}
	}
	return picture{mediaType: mediaType, side: side}
}

func (r *repair) eachImage(f func(Block)) {
	for _, m := range r.out {
		for _, b := range m.Blocks {
			if b.Kind == BlockImage {
				f(b)
			}
			for _, image := range b.Images {
				f(image)
			}
		}
	}
}

// replaceImages asks judge for every picture, last one first, and puts a note where it gives a reason.
func (r *repair) replaceImages(judge func(Block) (Block, string)) {
	for i := len(r.out) - 1; i >= 0; i-- {
		for k := len(r.out[i].Blocks) - 1; k >= 0; k-- {
			b := &r.out[i].Blocks[k]
			if b.Kind == BlockImage {
				image, why := judge(*b)
				if why != "" {
					r.note("a picture became a note: %s", why)
					image = Block{Kind: BlockText, Text: imageNote(why)}
				}
				*b = image
				continue
			}
			if len(b.Images) == 0 {
				continue
			}
			// Failed results hold text only: Anthropic refuses anything else in them.
			var keep []Block
			for n := len(b.Images) - 1; n >= 0; n-- {
				image, why := judge(b.Images[n])
				if b.IsError && why == "" {
					why = "the call failed"
				}
				if why != "" {
					r.note("a picture became a note: %s", why)
					b.Text = joinNote(b.Text, imageNote(why))
					continue
				}
				keep = append([]Block{image}, keep...)
			}
			b.Images = keep
		}
	}
}
