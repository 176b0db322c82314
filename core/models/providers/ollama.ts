import { EFFORTS } from '#core/ports/llm.ts';
import { MODEL_ID, type ProviderRow } from './row.ts';

/** A model server of the operator that speaks OpenAI's chat completions. */
export const ollama: ProviderRow = {
  title: 'the local model server',
  urlSetting: 'ollamaUrl',
  key: null,
  defaultModel: 'llama3.2',
  modelId: MODEL_ID,
  hasPrices: false,
  costLetter: 'l',
  silenceMs: 180_000,
  // Limits that such servers share. PDFs are only for models that the model table lists as reading them.
  files: {
    image: ['image/png', 'image/jpeg', 'image/gif', 'image/webp'],
    pdf: ['application/pdf'],
    audio: ['audio/wav', 'audio/mpeg'],
    usualInputs: ['image'],
  },
  settings: {
    stop: true,
    seed: true,
    parallelToolCalls: true,
    unknownModels: { efforts: EFFORTS, temperature: 'always' },
  },
};
