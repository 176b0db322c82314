import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type LocalTarget, request } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';

/*
 * The conformance suite calls tools, and reads resources, by fixed names, and sends no key. The agents and skills here do what
 * it expects of them; `fixtureProxy` sits between it and the platform, adds a key, and translates the names. Nothing else
 * is changed.
 */

const ask = (question: string, schema: object): ScriptedTurn => ({
  toolCalls: [{ name: 'ask_human', input: { question, schema } }],
});
const submit = (result = 'done'): ScriptedTurn => ({ toolCalls: [{ name: 'submit_result', input: { result } }] });
const formOf = (member: string, type = 'string') => ({
  type: 'object',
  properties: { [member]: { type } },
  required: [member],
});

const loop = (turns: readonly ScriptedTurn[], more: object = {}) => ({
  type: 'agent',
  prompt: `Do it. [[llm ${JSON.stringify(turns)}]]`,
  loop: { tools: ['ask_human'] },
  ...more,
});
const prompt = (turn: ScriptedTurn) => ({ type: 'prompt', prompt: `Do it. [[llm ${JSON.stringify([turn])}]]` });
const work = { name: 'work', description: 'Works', command: 'true', input_schema: { type: 'object' } };
const works: ScriptedTurn = { toolCalls: [{ name: 'work', input: {} }] };

/** Agents by the names of the tools that the suite calls. */
const AGENTS: { readonly [tool: string]: object } = {
  test_simple_text: prompt({ text: 'This is a simple text response for testing.' }),
  test_error_handling: prompt({ status: 400, message: 'This tool intentionally returns an error for testing' }),
  test_tool_with_progress: loop([works, works, works, submit()], { custom_tools: [work], loop: {} }),
  test_input_required_result_elicitation: loop([ask('What is your name?', formOf('name')), submit('Hello!')]),
  test_input_required_result_request_state: loop([ask('Please confirm', formOf('ok', 'boolean')), submit('state-ok')]),
  test_input_required_result_multi_round: loop([
    ask('Step 1: What is your name?', formOf('name')),
    ask('Step 2: What is your favorite color?', formOf('color')),
    submit(),
  ]),
  test_input_required_result_tampered_state: loop([ask('Please confirm', formOf('ok', 'boolean')), submit()]),
  test_logging_tool: prompt({ text: 'It logs nothing.' }),
  test_streaming_elicitation: loop([ask('Which color?', formOf('color')), submit()]),
  greet: {
    type: 'prompt',
    prompt: 'Hello, {{name}}! [[llm {"text": "Hello, World!"}]]',
    input_schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  },
  slow_compute: {
    ...loop([{ delayMs: 3000, ...submit() }], { durable: true, loop: {} }),
    input_schema: { type: 'object', properties: { seconds: { type: 'number' }, label: { type: 'string' } } },
  },
  failing_job: loop([{ status: 400, message: 'This job fails' }], { durable: true, loop: {} }),
  confirm_delete: loop([ask('Delete it?', formOf('confirm', 'boolean')), submit()]),
  multi_input: loop([
    { toolCalls: ['first', 'second'].map((name) => ask(name, formOf('confirm', 'boolean')).toolCalls![0]!) },
    submit(),
  ]),
};

/** Resources of the suite, and the files of skills that stand for them. */
const RESOURCES: { readonly [uri: string]: string } = {
  'test://static-text': 'skill://acme/v1/static/text.txt',
  'test://static-binary': 'skill://acme/v1/static/image.png',
  'test://template/123/data': 'skill://acme/v1/static/template/123/data',
};
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SKILL = {
  type: 'skill',
  prompt: 'Read the files.',
  skill_files: [
    { path: 'text.txt', content: 'This is the content of the static text resource.' },
    { path: 'image.png', content: PIXEL, encoding: 'base64' },
    { path: 'template/123/data', content: '{"id":"123","templateTest":true,"data":"Data for ID: 123"}' },
  ],
};

const agentNameOf = (tool: string): string => tool.replaceAll('_', '-');
const toolNameOf = (tool: string): string => `acme__${agentNameOf(tool)}`;

/** Publishes an agent in the workspace of the target. */
export async function publish(target: LocalTarget, name: string, manifest: object): Promise<void> {
  const json = { name, description: `Does ${name}`, required_secrets: [], ...manifest };
  const answer = await request(target, 'POST', '/agents', { key: target.key, json });
  if (answer.status !== 201) throw new Error(`${name}: ${JSON.stringify(answer.body)}`);
}

export async function publishFixtures(target: LocalTarget): Promise<void> {
  for (const [tool, manifest] of Object.entries(AGENTS)) await publish(target, agentNameOf(tool), manifest);
  await publish(target, 'static', SKILL);
}

/** The key of the first question of this tool has a fixed name in the suite; ours are ids. */
const NAMED_QUESTION = { tool: 'test_input_required_result_elicitation', key: 'user_name' };
const QUESTION_ID = /"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.1\.1)":/;

const PAIRS = [...Object.keys(AGENTS).map((tool) => [tool, toolNameOf(tool)] as const), ...Object.entries(RESOURCES)];

function translated(text: string, to: 'ours' | 'theirs'): string {
  let result = text;
  for (const [theirs, ours] of PAIRS) {
    result =
      to === 'ours' ? result.replaceAll(`"${theirs}"`, `"${ours}"`) : result.replaceAll(`"${ours}"`, `"${theirs}"`);
  }
  return result;
}

/** Serves the platform's endpoint at `path` under the names of the suite. */
export async function fixtureProxy(target: LocalTarget, path: string): Promise<{ url: string; server: Server }> {
  let question: string | undefined;
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    let body = translated(Buffer.concat(chunks).toString(), 'ours');
    const isNamed = body.includes(toolNameOf(NAMED_QUESTION.tool));
    if (isNamed && question !== undefined) body = body.replace(`"${NAMED_QUESTION.key}":`, `"${question}":`);
    const { 'mcp-name': name, 'content-length': _, host, origin, ...headers } = incoming.headers;
    const own = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const upstream = httpRequest(target.url + path, {
      method: incoming.method!,
      headers: {
        authorization: `Bearer ${target.key}`,
        ...headers,
        // Attacks by another host's name are for the platform.
        host: host === own || host === undefined ? new URL(target.url).host : host,
        ...(origin !== undefined && { origin: origin === `http://${own}` ? target.url : origin }),
        ...(name !== undefined && { 'mcp-name': JSON.parse(translated(JSON.stringify(name), 'ours')) }),
        ...(body !== '' && { 'content-length': Buffer.byteLength(body) }),
      },
    });
    upstream.on('response', (answer) => {
      const { 'content-length': _length, ...answered } = answer.headers;
      outgoing.writeHead(answer.statusCode!, answered);
      outgoing.flushHeaders();
      let rest = '';
      // A record of a stream is a line.
      const pass = (text: string): void => {
        let named = translated(text, 'theirs');
        const [, id] = isNamed ? (QUESTION_ID.exec(named) ?? []) : [];
        if (id !== undefined) {
          question = id;
          named = named.replace(`"${id}":`, `"${NAMED_QUESTION.key}":`);
        }
        outgoing.write(named);
      };
      answer.setEncoding('utf8').on('data', (text: string) => {
        const end = (rest + text).lastIndexOf('\n') + 1;
        const whole = (rest + text).slice(0, end);
        rest = (rest + text).slice(end);
        if (whole !== '') pass(whole);
      });
      answer.on('end', () => {
        if (rest !== '') pass(rest);
        outgoing.end();
      });
      answer.on('error', () => outgoing.destroy());
    });
    upstream.on('error', () => outgoing.destroy());
    outgoing.on('close', () => upstream.destroy());
    upstream.end(body);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, server };
}
