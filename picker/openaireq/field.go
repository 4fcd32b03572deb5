package openaireq

// field is a top-level field of a body that means something here.
type field uint8

const (
	fieldNone field = iota
	fieldModel
	fieldPrompt
	fieldMessages
	fieldInput
	fieldCacheSalt
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldMaxOutputTokens

	// What the prompt is made with, besides the text.
	fieldInstructions
	fieldTools
	fieldChatTemplate
	fieldChatTemplateKwargs
	fieldDocuments
	fieldReasoning
	fieldReasoningEffort
	fieldMMProcessorKwargs
	fieldMediaIOKwargs
	fieldAddSpecialTokens
	fieldAddGenerationPrompt
	fieldContinueFinalMessage

	// What the prompt is made of that is not in the body, or cut from it.
	fieldTruncatePromptTokens
	fieldPromptEmbeds
	fieldPreviousResponseID
	fieldConversation

	fields
)

// fieldNames are the names in bodies.
//
//nolint:gochecknoglobals,gosec // a constant, which Go has no arrays of; no credentials
var fieldNames = [fields]string{
	fieldModel:                "model",
	fieldPrompt:               "prompt",
	fieldMessages:             "messages",
	fieldInput:                "input",
	fieldCacheSalt:            "cache_salt",
	fieldMaxTokens:            "max_tokens",
	fieldMaxCompletionTokens:  "max_completion_tokens",
	fieldMaxOutputTokens:      "max_output_tokens",
	fieldInstructions:         "instructions",
	fieldTools:                "tools",
	fieldChatTemplate:         "chat_template",
	fieldChatTemplateKwargs:   "chat_template_kwargs",
	fieldDocuments:            "documents",
	fieldReasoning:            "reasoning",
	fieldReasoningEffort:      "reasoning_effort",
	fieldMMProcessorKwargs:    "mm_processor_kwargs",
	fieldMediaIOKwargs:        "media_io_kwargs",
	fieldAddSpecialTokens:     "add_special_tokens",
	fieldAddGenerationPrompt:  "add_generation_prompt",
	fieldContinueFinalMessage: "continue_final_message",
	fieldTruncatePromptTokens: "truncate_prompt_tokens",
	fieldPromptEmbeds:         "prompt_embeds",
	fieldPreviousResponseID:   "previous_response_id",
	fieldConversation:         "conversation",
}

// fieldOf returns the field of a plain key, fieldNone for any other key.
func fieldOf(key text) field {
	for f := fieldModel; f < fields; f++ {
		if key.is(fieldNames[f]) {
			return f
		}
	}
	return fieldNone
}

// span is a value's place in the body; empty if it is not there or null.
type span struct{ from, to int }
