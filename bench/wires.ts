import { type Bench, ms, type Row } from './harness.ts';
import { publishPrompt } from './prompts.ts';
import { median } from './statistics.ts';

const WARM_UP = 30;
const CALLS = 150;
const MAX_MORE_MS = 5;
/** First piece of the model's text. */
const FIRST_PIECE = /t=\d+;/;

interface Side {
  readonly path: string;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Alternates streamed calls of one prompt agent: our own, and the same over OpenAI's wire. */
export async function benchWires({ platform, client }: Bench): Promise<Row[]> {
  await publishPrompt(client, 'bench-wire', 'claude-bench');
  const model = 'main/bench-wire';
  const response = { model, input: 'Ada', stream: true };
  const ours: Side = { path: `/${model}/v1/run`, body: { name: 'Ada' }, headers: { accept: 'text/event-stream' } };
  const wires: Readonly<Record<string, Side>> = {
    'chat completion': {
      path: '/openai/v1/chat/completions',
      body: { model, messages: [{ role: 'user', content: 'Ada' }], stream: true },
    },
    'response without a session': { path: '/openai/v1/responses', body: { ...response, store: false } },
    'response in a new session': { path: '/openai/v1/responses', body: response },
  };
  const sides = [ours, ...Object.values(wires)];
  const times = new Map(sides.map((side) => [side, [] as number[]]));
  for (let call = 0; call < WARM_UP + CALLS; call++) {
    for (const side of sides) {
      const firstMs = await firstPieceOf(platform, side);
      if (call >= WARM_UP) times.get(side)!.push(firstMs);
    }
  }
  const own = median(times.get(ours)!);
  return Object.entries(wires).map(([name, side]) => {
    const first = median(times.get(side)!);
    return {
      what: `${name} over OpenAI's wire: from the request to the first piece of text, one at a time`,
      ours: ms(first),
      beside: `our own call ${ms(own)}`,
      result: `${(first - own).toFixed(2)} ms more`,
      bound: `at most ${MAX_MORE_MS} ms more`,
      isMet: first - own <= MAX_MORE_MS,
    };
  });
}

/** Makes a call, and returns the time until its first piece of text, in milliseconds. */
async function firstPieceOf(platform: Bench['platform'], { path, body, headers }: Side): Promise<number> {
  const sentAt = performance.now();
  const answer = await fetch(platform.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${platform.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  let firstMs: number | undefined;
  let text = '';
  for await (const chunk of answer.body!) {
    text += Buffer.from(chunk).toString();
    if (FIRST_PIECE.test(text)) firstMs ??= performance.now() - sentAt;
  }
  if (firstMs === undefined) throw new Error(`${path}: ${answer.status} without a text`);
  return firstMs;
}
