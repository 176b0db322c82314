import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { clientOf, type LocalTarget, publishCode, startLocalTarget } from '#test/helpers/platform.ts';
import { installPackages } from '../../scripts/install-packages.ts';

/* promptfoo and the platform decide about the same outputs of the same cases: the platform runs them, and promptfoo gets what was recorded. */

const FOLDER = join(import.meta.dirname, 'promptfoo');
const INSTALL_MS = 300_000;
const EVALUATE_MS = 120_000;
const JUDGE = 'claude-haiku-4-5';

/** What the judge answers, by the name in the rubric. */
const VERDICTS = {
  'verdict-met': '{"reason": "It is polite.", "score": 0.8, "pass": true}',
  'verdict-unmet': '{"reason": "It is rude.", "score": 0.1, "pass": false}',
  'verdict-in-prose': 'I think: {"reason": "It is rude.", "score": 0.2, "pass": false} as I said.',
  'verdict-in-a-fence': '```json\n{"reason": "It is polite.", "pass": true, "score": 1}\n```',
  'verdict-high-and-unmet': '{"reason": "It is rude.", "score": 0.9, "pass": false}',
  'verdict-without-a-score': '{"reason": "It is polite.", "pass": true}',
  'verdict-of-ten': '{"reason": "It is polite.", "score": 8, "pass": true}',
  'no-verdict': 'It is fine.',
};

const LENIENT_JSON =
  'promptfoo looks only for objects, reads them as YAML, adds braces that lack and counts those within texts. Ours looks for JSON as RFC 8259 has it.';
const JUDGE_IS_STRICT =
  'Our judge is asked once more for a reason, a score from 0 to 1 and a pass, and then the case is an error: an invented score would count as a measured one.';
/** Cases whose verdicts may differ, with `not-` and without, and why ours is as it is. */
const ACCEPTED: Readonly<Record<string, string>> = {
  'a variable that is not there':
    'A name that is not in vars stays as it is. promptfoo puts nothing in its place, so that a slip makes an assert that is always true.',
  'a variable within an object':
    'Names are filled in at any depth. promptfoo fills in texts and members of lists alone.',
  'a variable with a filter': 'There are no filters of Nunjucks; the text stays as it is, and so fails visibly.',
  'a word that schemas do not have': 'JSON Schema says that unknown words are ignored. promptfoo fails at them.',
  'a schema that is false': 'JSON Schema says that nothing matches it. promptfoo ignores it.',
  'a list in prose': LENIENT_JSON,
  'a word in braces': LENIENT_JSON,
  'JSON that was cut': LENIENT_JSON,
  'a brace within a text': LENIENT_JSON,
  'a block of one line of Python':
    'One line is an expression, as promptfoo has it for JavaScript. For Python its line break makes it a body, which returns nothing.',
  'a verdict without a score': JUDGE_IS_STRICT,
  'a score of another range': JUDGE_IS_STRICT,
};

interface Case {
  readonly description: string;
  readonly vars: Readonly<Record<string, unknown>>;
  readonly threshold?: number;
  readonly assert?: readonly { readonly type: string; readonly value?: unknown }[];
}
interface Suite {
  readonly defaultTest?: object;
  readonly tests: readonly Case[];
}
interface Verdict {
  readonly pass: boolean;
  readonly score: number;
  readonly reason: string | null;
}

let target: LocalTarget;
const home = mkdtempSync(join(tmpdir(), 'platform-promptfoo-'));
const ids = new Map<string, string>();

beforeAll(() => installPackages(FOLDER), INSTALL_MS);
beforeAll(async () => {
  target = await startLocalTarget();
  const client = clientOf(target);
  const workspace_id = (await client.getOrg({})).id;
  await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-scripted' } });
  const program =
    'import json, sys\ngiven = json.load(sys.stdin)\nprint(given["raw"] if "raw" in given else json.dumps({"result": given["output"]}))\n';
  const { agent } = await publishCode(
    client,
    'repeats',
    { 'main.py': program },
    { runtime: { command: 'python3 main.py' } },
  );
  ids.set('cases.yaml', agent.id);
  const prompt = {
    name: 'says',
    type: 'prompt',
    description: 'says',
    supported_providers: ['anthropic'],
    prompt: '{{text}}',
  };
  ids.set('models.yaml', (await client.createAgent({ body: prompt })).agent.id);
  target.llm.script({
    rules: Object.entries(VERDICTS).map(([marker, text]) => ({ marker, turns: [{ text }, { text }] })),
  });
});
afterAll(async () => {
  rmSync(home, { recursive: true, force: true });
  await target?.close();
});

/** Reads cases, and adds the opposite of each that has one assert. The agents and promptfoo's provider find out by `vars` what to answer. */
function read(name: string): Suite {
  const { tests, ...rest }: Suite = parse(readFileSync(join(FOLDER, name), 'utf8'));
  const all = tests.flatMap((each) => {
    const [assert, ...others] = each.assert ?? [];
    if (assert === undefined || others.length > 0) return [each];
    return [
      each,
      { ...each, description: `not ${each.description}`, assert: [{ ...assert, type: `not-${assert.type}` }] },
    ];
  });
  const withNumbers = all.map((each, number) => ({
    ...each,
    vars: { ...each.vars, number, text: `[[llm ${JSON.stringify({ text: each.vars.output })}]]` },
  }));
  return { ...rest, tests: withNumbers };
}

/** Evaluates the cases on the platform. Returns its verdicts, and the answers in the form of promptfoo's providers. */
async function ofPlatform(name: string, suite: Suite) {
  const client = clientOf(target);
  const id = ids.get(name)!;
  const text = JSON.stringify({ ...suite, judge: { model: JUDGE } });
  const named = new Set(Array.from(text.matchAll(/file:\/\/([\w./]+)/g), ([, path]) => path!));
  const files = Array.from(named, (path) => [path, readFileSync(join(FOLDER, path), 'utf8')]);
  const suites = { ...Object.fromEntries(files), [name]: text };
  const { eval_id } = await client.createEval({ params: { id }, body: { suites, budget_usd: 100 } });
  const params = { id, eval_id };
  await expect.poll(async () => (await client.getEval({ params })).status, { timeout: EVALUATE_MS }).toBe('completed');
  const { results } = (await client.getEvalResults({ params })).results;
  const verdicts = new Map<number, Verdict>();
  const recorded: Record<number, object> = {};
  for (const { testIdx, success, score, gradingResult, response, latencyMs, cost } of results) {
    verdicts.set(testIdx, { pass: success, score, reason: gradingResult?.reason ?? null });
    recorded[testIdx] = { output: response.output, latencyMs, cost };
  }
  return { verdicts, recorded };
}

async function ofPromptfoo(name: string, suite: Suite, recorded: object): Promise<Map<number, Verdict>> {
  const config = join(home, name);
  const results = `${config}.results`;
  const provider = {
    id: 'openai:chat:gpt-4o',
    config: { apiBaseUrl: `${target.llm.url}/openai/v1`, apiKey: 'sk-scripted' },
  };
  const defaultTest = { ...suite.defaultTest, options: { provider } };
  writeFileSync(config, JSON.stringify({ ...suite, defaultTest, recorded }));
  // Programs of cases are found from the working folder, which has no secrets and receives promptfoo's own files.
  cpSync(join(FOLDER, 'checks'), join(home, 'checks'), { recursive: true });
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    PROMPTFOO_CONFIG_DIR: join(home, '.promptfoo'),
    PROMPTFOO_DISABLE_TELEMETRY: '1',
    PROMPTFOO_DISABLE_UPDATE: '1',
    PROMPTFOO_DISABLE_REMOTE_GENERATION: 'true',
    PROMPTFOO_PYTHON: 'python3',
  };
  const args = [join(FOLDER, 'evaluate.js'), config, results];
  await promisify(execFile)(process.execPath, args, { cwd: home, env, maxBuffer: 64 * 1024 * 1024 });
  const found: (Verdict & { readonly testIdx: number })[] = JSON.parse(readFileSync(results, 'utf8'));
  return new Map(found.map(({ testIdx, ...verdict }) => [testIdx, verdict]));
}

test.each(['cases.yaml', 'models.yaml'])('promptfoo agrees about %s', { timeout: 2 * EVALUATE_MS }, async (name) => {
  const suite = read(name);
  const { verdicts, recorded } = await ofPlatform(name, suite);
  const theirs = await ofPromptfoo(name, suite, recorded);
  expect([verdicts.size, theirs.size]).toEqual([suite.tests.length, suite.tests.length]);

  const counts = new Map<string, { cases: number; agree: number }>();
  const differences: object[] = [];
  const agreed: string[] = [];
  for (const [index, { description, assert = [] }] of suite.tests.entries()) {
    const [ours, other] = [verdicts.get(index)!, theirs.get(index)!];
    const isSame = ours.pass === other.pass && Math.abs(ours.score - other.score) < 1e-9;
    const type = assert.length === 1 ? assert[0]!.type.replace(/^not-/, '') : 'several asserts, or none';
    const count = counts.get(type) ?? { cases: 0, agree: 0 };
    counts.set(type, { cases: count.cases + 1, agree: count.agree + (isSame ? 1 : 0) });
    const plain = description.replace(/^not /, '');
    if (isSame) agreed.push(plain);
    else if (!Object.hasOwn(ACCEPTED, plain)) differences.push({ description, assert, ours, promptfoo: other });
  }
  console.table([...counts].map(([type, count]) => ({ type, ...count })));
  expect(differences).toEqual([]);
  // What is the same by now is no longer accepted to differ.
  const own = Object.keys(ACCEPTED).filter((each) => suite.tests.some(({ description }) => description === each));
  const twice = own.filter((each) => agreed.filter((other) => other === each).length === 2);
  expect(twice).toEqual([]);
});
