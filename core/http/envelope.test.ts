import { describe, expect, test } from 'vitest';
import { ERROR_CODES, PlatformError } from '#core/base/errors.ts';
import { errorEnvelope, errorResponse, withDocsUrl } from './envelope.ts';

const UUID = '0f8fad5b-d9cb-469f-a165-70867728950e';
const ADDRESSES = { baseUrl: 'https://agents.example/base', dashboardUrl: 'https://agents.example/base/dashboard' };
const error = new PlatformError('NOT_FOUND', 'No agent.', { hint: 'List them.' });

describe('docs_url', () => {
  test('each sent error names the page of its code, beside the hint', () => {
    for (const code of ERROR_CODES) {
      const { body } = errorResponse(new PlatformError(code, 'x', { hint: 'y' }), UUID, {}, ADDRESSES);
      expect(JSON.parse(body as string).error).toMatchObject({
        hint: 'y',
        docs_url: `https://agents.example/base/docs/errors/${code}`,
      });
    }
  });

  test('it is absent where the platform serves no pages', () => {
    for (const addresses of [{}, { baseUrl: ADDRESSES.baseUrl }, { dashboardUrl: ADDRESSES.dashboardUrl }]) {
      expect(JSON.parse(errorResponse(error, UUID, {}, addresses).body as string).error).not.toHaveProperty('docs_url');
    }
  });

  test('an envelope to be stored has none, and adding it changes no other member', () => {
    const { body } = errorEnvelope(error, UUID);
    expect(body.error).not.toHaveProperty('docs_url');
    const { docs_url, ...rest } = withDocsUrl(body, ADDRESSES).error as Record<string, unknown>;
    expect(docs_url).toBe('https://agents.example/base/docs/errors/NOT_FOUND');
    expect(rest).toEqual(body.error);
  });
});
