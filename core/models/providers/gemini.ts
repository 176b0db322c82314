import type { ProviderRow } from './row.ts';

export const gemini: ProviderRow = {
  title: 'Gemini',
  urlSetting: 'geminiUrl',
  key: {
    secret: 'GEMINI_API_KEY',
    addressSecret: 'GEMINI_BASE_URL',
    addressVersion: 'v1beta',
    form: /^AIza/,
  },
  defaultModel: 'gemini-3.8-flash',
  ownModels: /^gemini-/,
  // The URL contains the id unescaped, and `:` begins the method: another path would be another resource of the key's
  // owner.
  modelId: /^(models\/|tunedModels\/)?(?!.*\.\.)[A-Za-z0-9][\w.@-]{0,199}$/,
  hasPrices: true,
  costLetter: 'g',
  silenceMs: 180_000,
  files: {
    image: ['image/png', 'image/jpeg', 'image/webp', 'image/heic'],
    pdf: ['application/pdf'],
    audio: ['audio/wav', 'audio/mpeg', 'audio/flac', 'audio/ogg', 'audio/aiff', 'audio/aac'],
    usualInputs: ['image', 'pdf', 'audio'],
    images: [3000, 3000],
    pages: [1000, 1000],
  },
  settings: {
    stop: true,
    seed: true,
    parallelToolCalls: false,
    unknownModels: { efforts: [], temperature: 'always' },
  },
};
