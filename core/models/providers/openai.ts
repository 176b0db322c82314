import { MODEL_ID, type ProviderRow } from './row.ts';

export const openai: ProviderRow = {
  title: 'OpenAI',
  urlSetting: 'openaiUrl',
  // OpenAI's own libraries expect the API version in the address.
  key: { secret: 'OPENAI_API_KEY', addressSecret: 'OPENAI_BASE_URL', form: /^sk-(?!ant-)/ },
  defaultModel: 'gpt-6.2-sol',
  ownModels: /^(gpt-|o\d)/,
  modelId: MODEL_ID,
  hasPrices: true,
  costLetter: 'o',
  silenceMs: 180_000,
  files: {
    image: ['image/png', 'image/jpeg', 'image/gif', 'image/webp'],
    pdf: ['application/pdf'],
    audio: [],
    usualInputs: ['image', 'pdf'],
  },
  settings: {
    stop: false,
    seed: false,
    parallelToolCalls: true,
    unknownModels: { efforts: [], temperature: 'never' },
  },
};
