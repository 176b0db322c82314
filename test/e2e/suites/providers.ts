import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import { expectError, expectOk, ISO_TIME } from '../expect.ts';
import { promptUser } from '../prompt-user.ts';

const KEY = 'key-of-the-lab-0123456789';
const LAB = 'openai-compatible:lab';

/** Model providers that workspaces set up. */
export function providersSuite(target: () => Target): void {
  beforeAll(() => needsModel(target()));

  async function setUp(slug: string) {
    const own = await promptUser(target(), slug, LAB);
    const { user } = own;
    const base = `/workspaces/${user.workspaceId}`;
    const send = (method: string, path: string, json?: unknown) =>
      request(target(), method, base + path, { key: user.key, json });
    /** Sets the provider `lab` up, at a path of the scripted model that names the workspace. */
    const setLab = async (more: object = {}) =>
      expectOk(
        await send('PUT', '/providers/lab', {
          base_url: `${target().llm!.url}/${slug}/v1/`,
          api_key: KEY,
          default_model: 'lab-1',
          ...more,
        }),
      );
    const script = (marker: string, ...turns: ScriptedTurn[]) =>
      target().llm!.script({ rules: [{ marker: `${slug}-${marker}`, turns }] });
    const traceOf = async (answer: Awaited<ReturnType<typeof own.call>>) =>
      expectOk(await send('GET', `/runs/${answer.headers.get('x-run-id')}/logs`));
    return { ...own, send, setLab, script, traceOf };
  }
  const sent = (text: string) => target().llm!.requests.filter((each) => each.text.includes(text));

  describe.concurrent('model providers of a workspace', () => {
    test('are set up, listed, replaced and deleted; their keys never leave', async () => {
      const { send } = await setUp('prov-life');
      const answers = [await send('PUT', '/providers/groq', { api_key: ` ${KEY}\n` })];
      const groq = {
        name: 'groq',
        provider: 'openai-compatible:groq',
        title: 'Groq',
        base_url: 'https://api.groq.com/openai/v1',
        has_key: true,
        default_model: null,
        prices: {},
        created_at: expect.stringMatching(ISO_TIME),
        updated_at: expect.stringMatching(ISO_TIME),
      };
      expect(expectOk(answers[0]!)).toEqual({ provider: groq, created: true });
      const prices = { 'm/1': { input: 1, output: 2 } };
      answers.push(await send('PUT', '/providers/groq', { default_model: 'm/1', prices }));
      const replaced = { ...groq, has_key: false, default_model: 'm/1', prices };
      expect(expectOk(answers[1]!)).toEqual({ provider: replaced, created: false });
      answers.push(await send('GET', '/providers'));
      expect(expectOk(answers[2]!)).toEqual({
        providers: [replaced],
        presets: expect.arrayContaining([
          { name: 'deepseek', title: 'DeepSeek', base_url: 'https://api.deepseek.com/v1' },
          { name: 'vllm', title: 'vLLM', base_url: null },
        ]),
      });
      answers.push(await send('GET', '/secrets'));
      expect(expectOk(answers[3]!).secrets).toMatchObject([
        { name: 'LLM_PROVIDER_GROQ', secret_type: 'llm_key', llm_provider: 'openai-compatible:groq' },
      ]);
      expect(expectOk(await send('DELETE', '/providers/groq'))).toEqual({ deleted: true });
      expectError(await send('DELETE', '/providers/groq'), 404, 'NOT_FOUND', 'prov-life');
      expect(expectOk(await send('GET', '/providers')).providers).toEqual([]);
      expect(JSON.stringify(answers.map(({ body }) => body))).not.toContain(KEY);
    });

    test('answer prompts for the prices of the workspace', async () => {
      const { call, setLab, publish, script, runOf } = await setUp('prov-prompt');
      await setLab({ prices: { 'lab-1': { input: 100, output: 1000 } } });
      await publish('ask');
      script('ask', { text: 'Here.', usage: { input: 10, output: 2 } });
      const answer = await call('/prov-prompt/ask/v1/run');
      expect(expectOk(answer).data).toEqual({ result: 'Here.' });
      const record = { llm_provider: LAB, llm_model: 'lab-1', cost_usd: 0.003 };
      expect(await runOf(answer)).toMatchObject(record);
      expect(sent('prov-prompt-ask').map(({ path, apiKey, model }) => [path, apiKey, model])).toEqual([
        ['/prov-prompt/v1/chat/completions', KEY, 'lab-1'],
      ]);
    });

    test('run loops by type prompt, with tools and a result by schema', async () => {
      const { call, setLab, publish, script, runOf } = await setUp('prov-loop');
      await setLab();
      await publish('work', {
        loop: { max_turns: 4 },
        required_secrets: [],
        default_models: { [LAB]: 'lab-2' },
        output_schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
      });
      script(
        'work',
        { toolCalls: [{ name: 'submit_result', input: { n: 'five' } }] },
        { toolCalls: [{ name: 'submit_result', input: { n: 5 } }] },
      );
      const answer = await call('/prov-loop/work/v1/run');
      expect(expectOk(answer).data).toEqual({ n: 5 });
      expect(await runOf(answer)).toMatchObject({ llm_provider: LAB, llm_model: 'lab-2', cost_usd: null });
      expect(sent('prov-loop-work').map(({ stream, model }) => [stream, model])).toEqual([
        [true, 'lab-2'],
        [true, 'lab-2'],
      ]);
    });

    test('run loops by type tool, whose own tools run in the sandbox', async () => {
      const { call, setLab, publish, script, runOf } = await setUp('prov-tools');
      await setLab();
      await publish('work', {
        type: 'tool',
        loop: { max_turns: 4 },
        required_secrets: [],
        custom_tools: [
          {
            name: 'count',
            description: 'Counts letters.',
            command: 'printf %s {{word}} | wc -c',
            input_schema: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
          },
        ],
      });
      script(
        'work',
        { toolCalls: [{ name: 'count', input: { word: 'seven77' } }] },
        { echo: true, toolCalls: [{ name: 'submit_result', input: { result: '7 letters' } }] },
      );
      const answer = await call('/prov-tools/work/v1/run');
      expect(expectOk(answer).data).toEqual({ result: '7 letters' });
      expect(await runOf(answer)).toMatchObject({ llm_provider: LAB });
      expect(sent('prov-tools-work').at(-1)?.text).toMatch(/(^|\D)7$/m);
    });

    test('without counts of tokens, with a limit of requests, and with a key that is refused', async () => {
      const { call, setLab, publish, script, traceOf } = await setUp('prov-faults');
      await setLab();
      await publish('uncounted');
      script('uncounted', { text: 'Here.', noUsage: true });
      const uncounted = expectOk(await call('/prov-faults/uncounted/v1/run'));
      expect(uncounted.metadata.usage.input_tokens).toBeGreaterThan(0);
      await publish('limited');
      script('limited', { status: 429, retryAfter: 0, times: 1 }, { text: 'Later.' });
      expect(expectOk(await call('/prov-faults/limited/v1/run')).data).toEqual({ result: 'Later.' });
      expect(sent('prov-faults-limited')).toHaveLength(2);
      const refused = 'refused-key-0123456789';
      await setLab({ api_key: refused });
      await publish('refused');
      const answer = await call('/prov-faults/refused/v1/run');
      expectError(answer, 400, 'LLM_KEY_REQUIRED', 'The provider "lab" refused the API key');
      expect(answer.body.error.hint).toContain('platform providers set lab');
      expect(JSON.stringify([answer.body, await traceOf(answer)])).not.toContain(refused);
    });

    test('are not picked for agents of any provider, unless the caller names them', async () => {
      const { call, setLab, publish } = await setUp('prov-any');
      await setLab();
      await publish('open', { supported_providers: ['any'] });
      // Targets have a local model server.
      expectOk(await call('/prov-any/open/v1/run'));
      expectOk(await call('/prov-any/open/v1/run', { llm_credentials: { provider: LAB } }));
      expect(sent('prov-any-open').map(({ path }) => path)).toEqual([
        '/ollama/v1/chat/completions',
        '/prov-any/v1/chat/completions',
      ]);
    });

    test('that are missing, or have no model, are named with what to do', async () => {
      const { call, setLab, publish } = await setUp('prov-missing');
      await publish('early');
      const early = await call('/prov-missing/early/v1/run');
      expectError(early, 400, 'LLM_KEY_REQUIRED', `the workspace has not set up ${LAB}`);
      expect(early.body.error.hint).toContain('platform providers set lab');
      await setLab({ default_model: undefined });
      expectError(await call('/prov-missing/early/v1/run'), 422, 'UNPROCESSABLE', `No model is named for ${LAB}`);
    });

    test('are those of the workspace that pays, and of no other', async () => {
      const author = await setUp('prov-author');
      await author.setLab();
      await author.publish('shared', { is_public: true });
      const payer = await setUp('prov-payer');
      expectError(await payer.call('/prov-author/shared/v1/run'), 400, 'LLM_KEY_REQUIRED', 'has not set up');
      expect(expectOk(await payer.send('GET', '/providers')).providers).toEqual([]);
      expectError(
        await request(target(), 'GET', `/workspaces/${author.user.workspaceId}/providers`, { key: payer.user.key }),
        403,
        'FORBIDDEN',
      );
      await payer.setLab({ api_key: 'key-of-the-payer' });
      expectOk(await payer.call('/prov-author/shared/v1/run'));
      expect(sent('prov-author-shared').map(({ path, apiKey }) => [path, apiKey])).toEqual([
        ['/prov-payer/v1/chat/completions', 'key-of-the-payer'],
      ]);
    });

    test('get no key of a caller at the address of a workspace', async () => {
      const { call, setLab, publish } = await setUp('prov-caller');
      await setLab();
      await publish('mine');
      const answer = await call('/prov-caller/mine/v1/run', { llm_credentials: { api_key: 'sk-of-the-caller' } });
      expectError(answer, 400, 'INVALID_INPUT', '"llm_credentials.api_key" cannot be used with');
      expect(sent('prov-caller-mine')).toEqual([]);
    });

    test.each([
      ['a private address', 'lab', { base_url: 'https://10.0.0.7/v1' }, 'base_url of the provider "lab": 10.0.0.7'],
      ['a private name', 'lab', { base_url: 'https://models.internal/v1' }, 'models.internal is not an address of'],
      ['metadata of a cloud', 'lab', { base_url: 'http://169.254.169.254/v1' }, 'must begin with https://'],
      ['a query', 'lab', { base_url: 'https://models.example.com/v1?a=b' }, 'without ? and #'],
      ['a password', 'lab', { base_url: 'https://a:b@models.example.com/v1' }, 'a user or a password'],
      ['no address', 'lab', { api_key: KEY }, 'the provider "lab" needs the address of its API'],
      ['a header in the key', 'groq', { api_key: 'a\r\nX-Admin: 1' }, 'api_key'],
      ['a key that is not ASCII', 'groq', { api_key: 'ключ' }, 'api_key'],
      ['a header in the name', 'gr%0d%0aX-Admin:1', { api_key: KEY }, 'provider'],
      ['a path as name', '..%2fsecrets', { api_key: KEY }, 'provider'],
      ['a long name', 'a'.repeat(41), { api_key: KEY }, 'provider'],
      ['an unknown member', 'groq', { apikey: KEY }, 'apikey'],
      ['a negative price', 'groq', { prices: { m: { input: -1, output: 1 } } }, 'must not be negative'],
      ['a model that is a path', 'groq', { default_model: '../files' }, 'must be a model id'],
    ])('%s is refused', async (_, name, body, problem) => {
      const { send } = await setUp(`prov-bad-${crypto.randomUUID().slice(0, 8)}`);
      const answer = await send('PUT', `/providers/${name}`, body);
      expectError(answer, 400, 'INVALID_INPUT', problem);
      expect(JSON.stringify(answer.body)).not.toContain(KEY);
      expect(expectOk(await send('GET', '/providers')).providers).toEqual([]);
    });

    test('have settings of at most 8 KB', async () => {
      const { send } = await setUp('prov-large');
      const models = Array.from({ length: 300 }, (_, index) => [`a-model-of-mine-${index}`, { input: 1, output: 2 }]);
      const answer = await send('PUT', '/providers/groq', { prices: Object.fromEntries(models) });
      expectError(answer, 413, 'DOCUMENT_TOO_LARGE', 'at most 8 KB');
    });

    test('are neither written as secrets nor given to programs', async () => {
      const { send, setLab, client } = await setUp('prov-secret');
      await setLab();
      const name = 'LLM_PROVIDER_LAB';
      expectError(await send('PUT', '/secrets', { name, value: '{}' }), 400, 'INVALID_INPUT', 'is kept for');
      expectError(await send('PATCH', `/secrets/${name}`, { value: '{}' }), 400, 'INVALID_INPUT', 'is kept for');
      const body = {
        name: 'thief',
        type: 'tool',
        description: 'x',
        runtime: { command: 'x' },
        required_secrets: [name],
      };
      await expect(client.createAgent({ body })).rejects.toMatchObject({
        message: expect.stringContaining('keys of model providers stay with the platform'),
      });
    });
  });
}
