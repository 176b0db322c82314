import { describe, expect, test } from 'vitest';
import { type Config, parseConfig } from '#core/base/config.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { chooseModels } from './choose.ts';
import { pricedId } from './transports.ts';

const WORKSPACE = 'ws-1';
const EU_SONNET = { via: 'bedrock', region: 'eu-central-1', model: 'eu.anthropic.claude-sonnet-5-5' };

const settings = (transports: object): Partial<Config> => ({
  transports: parseConfig({ PLATFORM_TRANSPORTS: JSON.stringify(transports) }).transports,
});
const BEDROCK = settings({
  anthropic: {
    via: 'bedrock',
    region: 'eu-central-1',
    models: {
      'claude-sonnet-5-5': 'eu.anthropic.claude-sonnet-5-5',
      'claude-haiku-4-5': 'eu.anthropic.claude-haiku-4-5-20251001-v1:0',
    },
  },
});
const AZURE = settings({
  openai: { via: 'azure', url: 'https://acme.openai.azure.com/openai/v1', models: { 'gpt-4o': 'our-4o' } },
});

async function choose(
  {
    providers = ['any'],
    models = {},
    ...credentials
  }: {
    providers?: readonly string[];
    models?: Record<string, string>;
  } & NonNullable<Parameters<typeof chooseModels>[1]['credentials']>,
  { secrets = {}, config = {} }: { secrets?: Record<string, string>; config?: Partial<Config> } = {},
) {
  const deps = memoryDeps(config);
  for (const [name, value] of Object.entries(secrets)) await deps.vault.write(WORKSPACE, name, value);
  const wishes = { supported_providers: providers as ['any'], default_models: models };
  return chooseModels(deps, { workspaceId: WORKSPACE, wishes, credentials });
}

describe('Bedrock', () => {
  test('needs no key, and comes in the order of the agent', async () => {
    const secrets = { OPENAI_API_KEY: 'sk-2' };
    expect(await choose({}, { secrets, config: BEDROCK })).toEqual([
      { provider: 'anthropic', model: 'claude-sonnet-5-5', transport: EU_SONNET },
      { provider: 'openai', model: 'gpt-6.2-sol', apiKey: 'sk-2' },
    ]);
    expect(await choose({ model: 'claude-sonnet-5-5' }, { config: BEDROCK })).toHaveLength(1);
  });

  test('is not used where there is a key: it is the account of the key that pays', async () => {
    const direct = { provider: 'anthropic', model: 'claude-sonnet-5-5' };
    const secrets = { ANTHROPIC_API_KEY: 'sk-ant-1' };
    expect(await choose({}, { secrets, config: BEDROCK })).toEqual([{ ...direct, apiKey: 'sk-ant-1' }]);
    expect(await choose({ api_key: 'sk-ant-mine' }, { config: BEDROCK })).toEqual([
      { ...direct, apiKey: 'sk-ant-mine' },
    ]);
  });

  test('knows dated editions by the name of their model', async () => {
    const [choice] = await choose({ model: 'claude-haiku-4-5-20251001' }, { config: BEDROCK });
    expect(choice).toMatchObject({
      model: 'claude-haiku-4-5-20251001',
      transport: { model: 'eu.anthropic.claude-haiku-4-5-20251001-v1:0' },
    });
  });

  test('a model that the operator has not configured is refused, and the available ones are listed', async () => {
    const there = 'Available: claude-sonnet-5-5 or claude-haiku-4-5.';
    await expect(choose({ model: 'claude-opus-5-5' }, { config: BEDROCK })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: `"llm_credentials.model" is claude-opus-5-5, which the operator of this platform has not configured. ${there}`,
    });
    const models = { anthropic: 'claude-opus-5-5' };
    await expect(choose({ models }, { config: BEDROCK })).rejects.toMatchObject({
      code: 'UNPROCESSABLE',
      message: expect.stringContaining("The agent's default_models.anthropic is claude-opus-5-5"),
    });
    const secrets = { OPENAI_API_KEY: 'sk-2' };
    const others = await choose({ models }, { secrets, config: BEDROCK });
    expect(others.map(({ provider }) => provider)).toEqual(['openai']);
  });
});

describe('Azure', () => {
  test("takes the workspace's key or the caller's, and has the first of its models by default", async () => {
    const transport = {
      via: 'azure',
      url: 'https://acme.openai.azure.com/openai/v1',
      auth: 'api-key',
      model: 'our-4o',
    };
    const choice = { provider: 'openai', model: 'gpt-4o', transport };
    const secrets = { OPENAI_API_KEY: 'of-azure' };
    expect(await choose({}, { secrets, config: AZURE })).toEqual([{ ...choice, apiKey: 'of-azure' }]);
    expect(await choose({ provider: 'openai', api_key: 'mine' }, { config: AZURE })).toEqual([
      { ...choice, apiKey: 'mine' },
    ]);
    await expect(choose({}, { config: AZURE })).rejects.toMatchObject({ code: 'LLM_KEY_REQUIRED' });
  });
});

describe('an address of the workspace', () => {
  const KEYS = { ANTHROPIC_API_KEY: 'key-of-gateway', OPENAI_API_KEY: 'sk-2', GEMINI_API_KEY: 'AIza3' };
  const withAddress = (ANTHROPIC_BASE_URL: string) => ({ secrets: { ...KEYS, ANTHROPIC_BASE_URL } });

  test.each([
    ['ANTHROPIC_BASE_URL', 'https://gw.example.com', 'https://gw.example.com/v1'],
    ['ANTHROPIC_BASE_URL', ' https://gw.example.com/claude/v1/\n', 'https://gw.example.com/claude/v1'],
    ['OPENAI_BASE_URL', 'https://gw.example.com/openai/v1/', 'https://gw.example.com/openai/v1'],
    ['OPENAI_BASE_URL', 'https://gw.example.com:8443', 'https://gw.example.com:8443'],
    ['GEMINI_BASE_URL', 'https://gw.example.com', 'https://gw.example.com/v1beta'],
    ['GEMINI_BASE_URL', 'https://gw.example.com/v1', 'https://gw.example.com/v1'],
  ])('%s=%j leads to %s, for the key beside it only', async (name, address, url) => {
    const choices = await choose({}, { secrets: { ...KEYS, [name]: address } });
    expect(choices.map(({ provider, transport }) => [provider, transport])).toEqual(
      ['anthropic', 'openai', 'gemini'].map((provider) => [
        provider,
        name.toLowerCase().startsWith(provider) ? { via: 'gateway', url } : undefined,
      ]),
    );
  });

  test("never gets the caller's key, nor the platform's credentials", async () => {
    const { secrets } = withAddress('https://gw.example.com');
    expect(await choose({ api_key: 'sk-ant-mine' }, { secrets })).toEqual([
      { provider: 'anthropic', model: 'claude-sonnet-5-5', apiKey: 'sk-ant-mine' },
    ]);
    const alone = { ANTHROPIC_BASE_URL: 'https://gw.example.com' };
    expect(await choose({}, { secrets: alone, config: BEDROCK })).toMatchObject([{ transport: EU_SONNET }]);
    await expect(choose({}, { secrets: alone })).rejects.toMatchObject({ code: 'LLM_KEY_REQUIRED' });
  });

  test("comes before the operator's way", async () => {
    const secrets = { OPENAI_API_KEY: 'sk-2', OPENAI_BASE_URL: 'https://gw.example.com/v1' };
    const [choice] = await choose({ model: 'gpt-6-luna' }, { secrets, config: AZURE });
    expect(choice).toMatchObject({ model: 'gpt-6-luna', transport: { via: 'gateway' } });
  });

  test.each([
    ['http://gw.example.com/v1', 'https://'],
    ['https://127.0.0.1/v1', 'not an address of the public internet'],
    ['https://169.254.169.254/v1', 'not an address of the public internet'],
    ['https://metadata.google.internal/v1', 'not an address of the public internet'],
    ['https://me:secret@gw.example.com/v1', 'a user or a password'],
    ['https://gw.example.com/v1?tenant=7', 'without ? and #'],
    ['gw.example.com', 'not a web address'],
  ])('%s is refused', async (address, why) => {
    const error = await choose({}, withAddress(address)).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ code: 'INVALID_INPUT' });
    expect((error as Error).message).toMatch(/^the secret ANTHROPIC_BASE_URL: /);
    expect((error as Error).message).toContain(why);
    expect((error as Error).message).not.toContain('secret@');
  });

  test('may be private where the operator says so', async () => {
    const config = { outboundHosts: ['llm.corp.internal'] };
    const [choice] = await choose({}, { ...withAddress('http://llm.corp.internal:4000'), config });
    expect(choice!.transport).toEqual({ via: 'gateway', url: 'http://llm.corp.internal:4000/v1' });
  });
});

test('a price is that of the transport', () => {
  const model = 'claude-sonnet-5-5';
  expect(pricedId({ model })).toBe(model);
  expect(pricedId({ model, transport: { via: 'gateway', url: 'https://gw.example.com:8443/x/v1' } })).toBe(
    'gw.example.com:8443/claude-sonnet-5-5',
  );
  expect(pricedId({ model, transport: EU_SONNET as never })).toBe('bedrock/eu.anthropic.claude-sonnet-5-5');
  const { modelTable } = memoryDeps();
  const usage = { inputTokens: 1, outputTokens: 1 };
  expect(modelTable.costOf('anthropic', 'bedrock/eu.anthropic.claude-sonnet-5-5', usage)).toBeUndefined();
});
