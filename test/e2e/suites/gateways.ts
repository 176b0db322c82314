import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, publishCode, type Target } from '#test/helpers/platform.ts';
import { expectError, expectOk } from '../expect.ts';
import { promptUser } from '../prompt-user.ts';

/** Prints the lengths of its address and key, because their values would be masked. */
const LENGTHS = `printf '{"address": %d, "key": %d}' "\${#ANTHROPIC_BASE_URL}" "\${#ANTHROPIC_API_KEY}"`;
const KEY = 'key-of-the-gateway';

/** Workspaces that call models through their own gateway. */
export function gatewaysSuite(target: () => Target): void {
  beforeAll(() => needsModel(target()));

  /** Creates a user whose workspace has a key and a gateway address for it. */
  async function setUp(slug: string, address = `${target().llm!.url}/${slug}`) {
    const own = await promptUser(target(), slug, 'anthropic');
    const { client, params } = own;
    for (const [name, value] of [
      ['ANTHROPIC_API_KEY', KEY],
      ['ANTHROPIC_BASE_URL', address],
    ] as const) {
      await client.putSecret({ params, body: { name, value } });
    }
    return { ...own, address };
  }
  const sent = (text: string) =>
    target()
      .llm!.requests.filter((each) => each.text.includes(text))
      .map(({ path, apiKey }) => [path, apiKey]);

  describe.concurrent('a gateway of a workspace', () => {
    test('gets what its prompts and loops ask, with its key; records name the provider', async () => {
      const { publish, call, runOf } = await setUp('gw-own');
      await publish('prompt');
      const answer = await call('/gw-own/prompt/v1/run');
      expect(expectOk(answer).data).toEqual({ result: 'ok' });
      expect(await runOf(answer)).toMatchObject({
        llm_provider: 'anthropic',
        llm_model: 'claude-sonnet-5-5',
        cost_usd: null,
      });
      await publish('loop', { type: 'agent', required_secrets: [], loop: { max_turns: 2 } });
      expectOk(await call('/gw-own/loop/v1/run'));
      for (const name of ['prompt', 'loop']) expect(sent(`gw-own-${name}`)).toEqual([['/gw-own/v1/messages', KEY]]);
    });

    test("gets no key of a caller: that one goes to the provider, for the provider's price", async () => {
      const { publish, call, runOf } = await setUp('gw-key');
      await publish('prompt');
      const answer = await call('/gw-key/prompt/v1/run', { llm_credentials: { api_key: 'sk-ant-of-the-caller' } });
      expectOk(answer);
      expect(sent('gw-key-prompt')).toEqual([['/anthropic/v1/messages', 'sk-ant-of-the-caller']]);
      expect(await runOf(answer)).toMatchObject({ cost_usd: expect.any(Number) });
    });

    test('is that of the workspace that pays, not that of the author', async () => {
      const author = await setUp('gw-author');
      await author.publish('shared', { is_public: true });
      const payer = await setUp('gw-payer');
      expectOk(await payer.call('/gw-author/shared/v1/run'));
      expect(sent('gw-author-shared')).toEqual([['/gw-payer/v1/messages', KEY]]);
    });

    test('at an address that is not allowed gets nothing', async () => {
      const { publish, call } = await setUp('gw-private', 'https://10.0.0.7/v1');
      await publish('prompt');
      const answer = await call('/gw-private/prompt/v1/run');
      expectError(answer, 400, 'INVALID_INPUT', 'the secret ANTHROPIC_BASE_URL: 10.0.0.7 is not an address of');
      expect(sent('gw-private-prompt')).toEqual([]);
    });

    test('is told to programs with its key, and not with the key of a caller', async () => {
      const { client, call, address } = await setUp('gw-program');
      const manifest = { supported_providers: ['anthropic'], runtime: { command: 'bash main.sh' } };
      await publishCode(client, 'lengths', { 'main.sh': LENGTHS }, manifest);
      const lengths = async (json: unknown) => expectOk(await call('/gw-program/lengths/v1/run', json)).data;
      expect(await lengths({})).toEqual({ address: address.length, key: KEY.length });
      const api_key = 'sk-ant-of-the-caller';
      const own = await lengths({ llm_credentials: { provider: 'anthropic', api_key } });
      expect(own).toEqual({ address: 0, key: api_key.length });
    });
  });
}
