import { forcedTool, MESSAGE_FORM, type ProviderApi } from './api.ts';
import { sdkOptions } from './sdk-options.ts';

export const gemini: ProviderApi = {
  async load() {
    const { createGoogle } = await import('@ai-sdk/google');
    return ({ model }, wire) => createGoogle(sdkOptions(wire))(model);
  },
  hasJsonMode: true,
  declaresLooseTools: false,
  takesParts: true,
  marksCache: false,
  answerForms: (_model, schema) => [{ kind: 'native', schema }, MESSAGE_FORM],
  onlyTool: forcedTool,
  options: ({ effort, thoughts }) => ({
    google: {
      ...((effort || thoughts) && {
        thinkingConfig: { ...(effort && { thinkingLevel: effort }), ...(thoughts && { includeThoughts: true }) },
      }),
    },
  }),
};
