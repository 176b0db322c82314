import { EFFORTS } from '#core/ports/llm.ts';
import { CHAT_SERVER, type ProviderRow } from './row.ts';

/** A model server of the operator that speaks OpenAI's chat completions. */
export const ollama: ProviderRow = {
  ...CHAT_SERVER,
  title: 'the local model server',
  urlSetting: 'ollamaUrl',
  defaultModel: 'llama3.2',
  hasPrices: false,
  costLetter: 'l',
  settings: {
    stop: true,
    seed: true,
    parallelToolCalls: true,
    unknownModels: { efforts: EFFORTS, temperature: 'always' },
  },
};
