import { describe, expect, test } from 'vitest';
import type { Config } from '#core/base/config.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { chooseModels } from './choose.ts';

const WORKSPACE = 'ws-1';

const agentWith = (supported_providers: string[], default_models: Record<string, string> = {}): AgentVersion =>
  ({ definition: { supported_providers, default_models } }) as unknown as AgentVersion;

async function choose(
  agent: AgentVersion,
  credentials: Parameters<typeof chooseModels>[1]['credentials'] = undefined,
  { secrets = {}, settings = {} }: { secrets?: Record<string, string>; settings?: Partial<Config> } = {},
) {
  const deps = memoryDeps(settings);
  for (const [name, value] of Object.entries(secrets)) await deps.vault.write(WORKSPACE, name, value);
  let reads = 0;
  const vault: typeof deps.vault = Object.assign(Object.create(deps.vault), {
    read: (...args: Parameters<typeof deps.vault.read>) => {
      reads++;
      return deps.vault.read(...args);
    },
  });
  const models = await chooseModels(
    { config: deps.config, vault, modelTable: deps.modelTable },
    { workspaceId: WORKSPACE, wishes: agent.definition, credentials },
  );
  expect(reads).toBeLessThanOrEqual(1);
  return models;
}

const ALL_KEYS = { ANTHROPIC_API_KEY: 'sk-ant-1', OPENAI_API_KEY: 'sk-2', GEMINI_API_KEY: 'AIza3' };
const OLLAMA = { ollamaUrl: 'http://127.0.0.1:11434/v1' };

describe('without a wish', () => {
  test('one model for each provider that there is a key for, in the order of the agent', async () => {
    expect(await choose(agentWith(['gemini', 'openai', 'anthropic']), undefined, { secrets: ALL_KEYS })).toEqual([
      { provider: 'gemini', model: 'gemini-3.8-flash', apiKey: 'AIza3' },
      { provider: 'openai', model: 'gpt-6.2-sol', apiKey: 'sk-2' },
      { provider: 'anthropic', model: 'claude-sonnet-5-5', apiKey: 'sk-ant-1' },
    ]);
  });

  test('any means all, and a local model server where there is one', async () => {
    const providers = async (settings: Partial<Config>) =>
      (await choose(agentWith(['any']), undefined, { secrets: ALL_KEYS, settings })).map(({ provider }) => provider);
    expect(await providers({})).toEqual(['anthropic', 'openai', 'gemini']);
    expect(await providers(OLLAMA)).toEqual(['anthropic', 'openai', 'gemini', 'ollama']);
  });

  test('what is named before any comes first, and once', async () => {
    const models = await choose(agentWith(['openai', 'any']), undefined, { secrets: ALL_KEYS });
    expect(models.map(({ provider }) => provider)).toEqual(['openai', 'anthropic', 'gemini']);
  });

  test('the models that the agent names', async () => {
    const agent = agentWith(['any'], { openai: 'gpt-4o', gemini: 'tunedModels/one' });
    const models = await choose(agent, undefined, { secrets: ALL_KEYS });
    expect(models.map(({ model }) => model)).toEqual(['claude-sonnet-5-5', 'gpt-4o', 'tunedModels/one']);
  });

  test('a provider without a key is left out', async () => {
    const secrets = { OPENAI_API_KEY: ' sk-2\n', GEMINI_API_KEY: ' ' };
    expect(await choose(agentWith(['any']), undefined, { secrets })).toEqual([
      { provider: 'openai', model: 'gpt-6.2-sol', apiKey: 'sk-2' },
    ]);
  });

  test('a local model server needs no key', async () => {
    expect(await choose(agentWith(['any']), undefined, { settings: OLLAMA })).toEqual([
      { provider: 'ollama', model: 'llama3.2', apiKey: undefined },
    ]);
  });
});

describe('no key at all', () => {
  test('the error names the secrets to add', async () => {
    await expect(choose(agentWith(['any']))).rejects.toMatchObject({
      code: 'LLM_KEY_REQUIRED',
      message: expect.stringContaining('ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY'),
    });
    await expect(
      choose(agentWith(['openai']), undefined, { secrets: { GEMINI_API_KEY: 'AIza3' } }),
    ).rejects.toMatchObject({ code: 'LLM_KEY_REQUIRED', message: expect.stringMatching(/secret OPENAI_API_KEY\.$/) });
  });

  test('for an agent of a local model server that is not there', async () => {
    await expect(choose(agentWith(['ollama']))).rejects.toMatchObject({ code: 'LLM_KEY_REQUIRED' });
  });
});

describe("the caller's wish", () => {
  test('a provider, with its key or the key of the workspace', async () => {
    expect(await choose(agentWith(['any']), { provider: 'openai', api_key: 'mine' }, { secrets: ALL_KEYS })).toEqual([
      { provider: 'openai', model: 'gpt-6.2-sol', apiKey: 'mine' },
    ]);
    expect(await choose(agentWith(['any']), { provider: 'gemini' }, { secrets: ALL_KEYS })).toEqual([
      { provider: 'gemini', model: 'gemini-3.8-flash', apiKey: 'AIza3' },
    ]);
  });

  test('a provider that the agent does not support', async () => {
    await expect(choose(agentWith(['anthropic']), { provider: 'openai', api_key: 'k' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: '"llm_credentials.provider" is openai; this agent may use anthropic.',
    });
    await expect(choose(agentWith(['any']), { provider: 'ollama' })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(await choose(agentWith(['any']), { provider: 'ollama' }, { settings: OLLAMA })).toHaveLength(1);
  });

  test.each([
    ['sk-ant-abc', 'anthropic'],
    ['sk-proj-abc', 'openai'],
    ['AIzaSyAbc', 'gemini'],
  ])('the key %s alone tells the provider', async (api_key, provider) => {
    expect(await choose(agentWith(['any']), { api_key })).toMatchObject([{ provider, apiKey: api_key }]);
  });

  test('a key of an unknown form is that of the only provider', async () => {
    expect(await choose(agentWith(['gemini']), { api_key: 'proxy-key' })).toMatchObject([{ provider: 'gemini' }]);
    await expect(choose(agentWith(['any']), { api_key: 'proxy-key' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/llm_credentials\.provider.*anthropic, openai, gemini/),
    });
  });

  test('a key of a provider that the agent does not support is not shown', async () => {
    const error = await choose(agentWith(['openai']), { api_key: 'sk-ant-abc' }).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ code: 'INVALID_INPUT' });
    expect((error as Error).message).not.toContain('sk-ant-abc');
  });

  test('a model, for the first choice only', async () => {
    const models = await choose(agentWith(['anthropic', 'openai']), { model: 'my-model' }, { secrets: ALL_KEYS });
    expect(models.map(({ model }) => model)).toEqual(['my-model', 'gpt-6.2-sol']);
  });

  test('a model whose name tells the provider', async () => {
    const models = await choose(agentWith(['any']), { model: 'gpt-4o' }, { secrets: ALL_KEYS });
    expect(models).toEqual([{ provider: 'openai', model: 'gpt-4o', apiKey: 'sk-2' }]);
  });

  test.each(['files/x', 'gemini-3.8-flash:generateContent/x', 'cachedContents/x', 'models/../files/x'])(
    '%j is no model of Gemini, whose URL has the id as it is',
    async (model) => {
      const chosen = choose(agentWith(['gemini']), { model }, { secrets: ALL_KEYS });
      await expect(chosen).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    },
  );

  test('a tuned model of Gemini', async () => {
    const models = await choose(agentWith(['gemini']), { model: 'tunedModels/mine-1' }, { secrets: ALL_KEYS });
    expect(models.map(({ model }) => model)).toEqual(['tunedModels/mine-1']);
  });

  test.each(['../files', 'a?b=c', 'a b', 'a#b', '', '..', 'x/../y'])('%j is no model', async (model) => {
    await expect(choose(agentWith(['any']), { model }, { secrets: ALL_KEYS })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    await expect(
      choose(agentWith(['gemini'], { gemini: model || '.' }), undefined, { secrets: ALL_KEYS }),
    ).rejects.toMatchObject({ code: 'UNPROCESSABLE' });
  });
});

test('every default model has a price', async () => {
  const { modelTable } = memoryDeps();
  const models = await choose(agentWith(['any']), undefined, { secrets: ALL_KEYS, settings: OLLAMA });
  for (const { provider, model } of models)
    expect(modelTable.costOf(provider, model, { inputTokens: 1, outputTokens: 1 })).toBeTypeOf('number');
});
