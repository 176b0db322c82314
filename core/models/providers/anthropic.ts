import { MODEL_ID, type ProviderRow } from './row.ts';

export const anthropic: ProviderRow = {
  title: 'Anthropic',
  urlSetting: 'anthropicUrl',
  key: {
    secret: 'ANTHROPIC_API_KEY',
    addressSecret: 'ANTHROPIC_BASE_URL',
    addressVersion: 'v1',
    form: /^sk-ant-/,
  },
  defaultModel: 'claude-sonnet-5-5',
  ownModels: /^claude-/,
  modelId: MODEL_ID,
  hasPrices: true,
  costLetter: 'a',
  // Keep-alive events arrive while its models think.
  silenceMs: 90_000,
  files: {
    image: ['image/png', 'image/jpeg', 'image/gif', 'image/webp'],
    pdf: ['application/pdf'],
    audio: [],
    usualInputs: ['image', 'pdf'],
    // 5 MB in base64.
    imageBytes: 3.75 * 1024 ** 2,
    imagePixels: [8000, 2000],
    images: [600, 100],
    pages: [600, 100],
  },
  settings: {
    stop: true,
    seed: false,
    parallelToolCalls: true,
    unknownModels: { efforts: [], temperature: 'never' },
  },
};
