import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkDefinition, checkUpdate } from './manifest.ts';

type Body = Record<string, unknown>;

const prompt: Body = {
  name: 'summarise',
  type: 'prompt',
  description: 'Summarises a text.',
  prompt: 'Summarise {{text}}.',
  supported_providers: ['any'],
};
const tool: Body = {
  name: 'word-count',
  type: 'tool',
  description: 'Counts words.',
  runtime: { command: 'python3 main.py' },
  required_secrets: [],
};
const callTool = {
  name: 'ask',
  description: 'Asks the other agent.',
  command: 'python3 /home/user/helpers/platform_call.py acme/other@v1',
};
const agent: Body = {
  name: 'researcher',
  type: 'agent',
  description: 'Researches.',
  prompt: 'You research.',
  supported_providers: ['anthropic'],
  loop: { max_turns: 10, custom_tools: [callTool] },
  required_secrets: ['SEARCH_KEY'],
  manifest: {
    manifest_version: 1,
    dependencies: [{ id: 'acme/other', version: 'v1' }],
    max_hops: 2,
    timeout_ms: 60000,
  },
};
const judged = { sample: 1, assert: [{ type: 'llm-rubric', value: 'Is polite.' }] };
/** A prompt whose runs are scored. */
const online = (members: Body): Body => ({
  ...prompt,
  evals: { online: { sample: 0.05, assert: [{ type: 'is-json' }], ...members } },
});
const skill: Body = { name: 'tone', type: 'skill', description: 'How we write.', prompt: 'Write plainly.' };

function accept(body: Body) {
  const { definition, errors, warnings } = checkDefinition(body);
  expect(errors).toEqual([]);
  return { definition: definition!, warnings };
}

const errorsOf = (body: unknown) => checkDefinition(body).errors.map(({ field, message }) => `${field}: ${message}`);

test('a prompt with every default', () => {
  const { definition, warnings } = accept(prompt);
  expect(warnings).toEqual([]);
  expect(definition).toEqual({
    name: 'summarise',
    type: 'prompt',
    run_mode: 'on_demand',
    execution_engine: 'direct_llm',
    callable: true,
    description: 'Summarises a text.',
    prompt: 'Summarise {{text}}.',
    runtime: null,
    loop: null,
    custom_tools: [],
    input_schema: null,
    output_schema: null,
    accepts_files: null,
    accept: null,
    max_files: null,
    supported_providers: ['any'],
    default_models: {},
    default_endpoint: 'run',
    timeout_seconds: 300,
    tags: [],
    is_public: false,
    default_skills: [],
    skills_locked: false,
    required_secrets: [],
    optional_secrets: [],
    entrypoint: null,
    source_url: null,
    pip_package: null,
    run_command: null,
    url: null,
    bundle: null,
    manifest: null,
    skill_files: [],
    allow_local_download: false,
    environment: null,
    model_settings: null,
    model_tasks: null,
    sdk_compatible: false,
    price_per_call_cents: null,
  });
});

/** A SKILL.md with the name of the prompt and a description of this length. */
const skillText = (length: number): string =>
  `---\nname: ${prompt.name}\ndescription: ${'d'.repeat(length)}\n---\n\nWrite well.`;

describe('is published as', () => {
  test.each<[string, Body, Body]>([
    ['no type is prompt', { ...prompt, type: undefined }, { type: 'prompt' }],
    ['code is tool', { ...tool, type: 'code' }, { type: 'tool', execution_engine: 'code_runtime' }],
    ['agentic is agent', { ...agent, type: 'agentic' }, { type: 'agent', execution_engine: 'managed_loop' }],
    ['a tool is code_runtime', { ...tool, runtime: undefined }, { execution_engine: 'code_runtime', runtime: null }],
    [
      'an agent is managed_loop with 25 turns',
      { ...agent, loop: undefined, manifest: undefined },
      { execution_engine: 'managed_loop', loop: { max_turns: 25 } },
    ],
    ['runtime makes code_runtime', { ...prompt, runtime: { command: 'x' } }, { execution_engine: 'code_runtime' }],
    ['an agent with runtime needs no prompt', { ...tool, type: 'agent' }, { prompt: null, type: 'agent' }],
    ['loop makes managed_loop', { ...prompt, loop: {} }, { execution_engine: 'managed_loop', loop: { max_turns: 25 } }],
    ['a skill is not run', skill, { execution_engine: null, callable: false, prompt: 'Write plainly.' }],
    [
      'other members of runtime stay',
      { ...tool, runtime: { command: 'x', cpu: 2 } },
      { runtime: { command: 'x', cpu: 2 } },
    ],
    ['custom tools leave the loop', agent, { loop: { max_turns: 10 }, custom_tools: [callTool] }],
    [
      'older custom tools and turns beside it',
      { ...agent, loop: undefined, max_turns: 7, custom_tools: [callTool] },
      { loop: { max_turns: 7 }, custom_tools: [callTool] },
    ],
    [
      'a loop may do with some tools of the platform',
      { ...agent, loop: { max_turns: 10, tools: ['read_file'], custom_tools: [callTool] } },
      { loop: { max_turns: 10, tools: ['read_file'] }, custom_tools: [callTool] },
    ],
    ['null is absent', { ...prompt, runtime: null, loop: null, tags: null, timeout_seconds: null }, { tags: [] }],
    ['always_on with a loop', { ...agent, run_mode: 'always_on' }, { run_mode: 'always_on', timeout_seconds: 0 }],
    ['always_on with runtime', { ...tool, run_mode: 'always_on', timeout_seconds: 9 }, { timeout_seconds: 9 }],
    ['always_on with 0 seconds', { ...tool, run_mode: 'always_on', timeout_seconds: 0 }, { timeout_seconds: 0 }],
    [
      'always_on with an entrypoint',
      { ...tool, run_mode: 'always_on', runtime: undefined, entrypoint: 'main.py' },
      { run_mode: 'always_on' },
    ],
    ['providers of a loop', { ...agent, supported_providers: undefined }, { supported_providers: ['anthropic'] }],
    [
      'providers of a loop of another type',
      { ...prompt, loop: {}, supported_providers: ['openai', 'ollama'] },
      { supported_providers: ['openai', 'ollama'], execution_engine: 'managed_loop' },
    ],
    ['providers of a prompt', { ...prompt, supported_providers: [] }, { supported_providers: ['any'] }],
    [
      'each provider once',
      { ...prompt, supported_providers: ['openai', 'gemini', 'openai', 'ollama'] },
      { supported_providers: ['openai', 'gemini', 'ollama'] },
    ],
    ['models', { ...prompt, default_models: { openai: 'gpt-x' } }, { default_models: { openai: 'gpt-x' } }],
    ['prompt_template is the prompt', { ...prompt, prompt: undefined, prompt_template: '{{a}}' }, { prompt: '{{a}}' }],
    ['prompt comes before it', { ...prompt, prompt_template: 'prompt.md' }, { prompt: 'Summarise {{text}}.' }],
    [
      'no secrets by the flag',
      { ...tool, required_secrets: null, no_required_secrets: true },
      { required_secrets: [] },
    ],
    ['a prompt without secrets', { ...prompt, required_secrets: undefined }, { required_secrets: [] }],
    [
      'each secret once',
      { ...tool, required_secrets: ['A', 'A'], optional_secrets: ['A', 'B_2'] },
      { required_secrets: ['A'], optional_secrets: ['B_2'] },
    ],
    ['PLATFORM_API_KEY is the author’s own', { ...tool, required_secrets: ['PLATFORM_API_KEY'] }, {}],
    ['no address', { ...prompt, url: 'https://prompt-agent.internal' }, { url: null }],
    ['an address', { ...prompt, url: 'https://example.org/x' }, { url: 'https://example.org/x' }],
    ['a source over https', { ...tool, source_url: 'https://example.org/a.git' }, {}],
    [
      'a source over ssh',
      { ...tool, source_url: 'git@example.org:a/b.git' },
      { source_url: 'git@example.org:a/b.git' },
    ],
    ['a package', { ...tool, pip_package: 'word-count[x]>=1.0,<2' }, { pip_package: 'word-count[x]>=1.0,<2' }],
    ['a second attempt', { ...tool, retry_on_interruption: true }, { retry_on_interruption: true }],
    ['files that its sessions keep', { ...agent, workspace: true }, { workspace: true }],
    ['a gate', { ...prompt, evals: { gate: true, baseline: 'latest' } }, { evals: { gate: true, baseline: 'latest' } }],
    ['a baseline alone', { ...tool, evals: { baseline: 'v3' } }, { evals: { baseline: 'v3' } }],
    [
      'online scores',
      { ...prompt, evals: { online: { sample: 0.05, assert: [{ type: 'is-json' }] } } },
      { evals: { online: { sample: 0.05, budget_usd_per_day: 1, assert: [{ type: 'is-json' }] } } },
    ],
    [
      'online scores with a judge',
      { ...prompt, evals: { online: { ...judged, budget_usd_per_day: 0, judge: { agent: 'main/judge@v1' } } } },
      { evals: { online: { ...judged, budget_usd_per_day: 0, judge: { agent: 'main/judge@v1' } } } },
    ],
    ['no gate, of an agent that was read back', { ...agent, evals: { gate: false, baseline: null } }, {}],
    ['no files, of a loop that was read back', { ...agent, workspace: false }, {}],
    ['none, of a loop that was read back', { ...agent, retry_on_interruption: false }, {}],
    ['a limit', { ...prompt, concurrency: { limit: 1, key: null } }, { concurrency: { limit: 1, on_limit: 'queue' } }],
    [
      'rules with keys',
      { ...agent, rate: { count: 2, seconds: 60, key: '/a~1b/0' }, debounce: { seconds: 5, key: '/' } },
      { rate: { count: 2, seconds: 60, key: '/a~1b/0' }, debounce: { seconds: 5, key: '/' } },
    ],
    ['a bundle', { ...tool, bundle: { exclude: ['*.csv'] } }, { bundle: { include: [], exclude: ['*.csv'] } }],
    ['an entrypoint', { ...tool, entrypoint: 'src/main.py' }, { entrypoint: 'src/main.py' }],
    [
      'skills',
      { ...prompt, default_skills: ['tone', 'acme/tone', 'acme/tone@v2'], skills_locked: true },
      { skills_locked: true },
    ],
    ['tags', { ...prompt, tags: [' a ', 'a', 'b'] }, { tags: ['a', 'b'] }],
    ['a price', { ...prompt, price_per_call_cents: 5 }, { price_per_call_cents: 5 }],
    ['no price', { ...prompt, pricing_mode: 'free', price_per_call_cents: 0 }, { price_per_call_cents: null }],
    [
      'an environment',
      { ...tool, environment: { python_version: '3.11', pip_flags: '--no-cache-dir' } },
      { environment: { python_version: '3.11', pip_flags: '--no-cache-dir' } },
    ],
    [
      'model tasks',
      { ...prompt, model_tasks: { default: 'm', fast_2: 'n' } },
      { model_tasks: { default: 'm', fast_2: 'n' } },
    ],
    [
      'keywords beyond JSON Schema',
      { ...tool, input_schema: { type: 'object', properties: { f: { accepts_files: true, accept: '.pdf' } } } },
      {},
    ],
    [
      'strict by default',
      agent,
      { manifest: { ...(agent.manifest as Body), per_call_downstream_cap: 50, orchestration_mode: 'strict' } },
    ],
    [
      'dependencies of a program need no tools, and have no mode',
      { ...tool, manifest: { ...(agent.manifest as Body), orchestration_mode: 'strict', x: 1 } },
      { manifest: { ...(agent.manifest as Body), per_call_downstream_cap: 50, x: 1 } },
    ],
    [
      'no dependencies',
      { ...tool, manifest: { dependencies: [], max_hops: 1 } },
      { manifest: { manifest_version: 1, dependencies: [], max_hops: 1, per_call_downstream_cap: 50 } },
    ],
    ['an empty section', { ...tool, manifest: {} }, { manifest: null }],
    [
      'an agent of others is a server of the loop',
      {
        ...agent,
        loop: { custom_tools: [callTool] },
        manifest: {
          ...(agent.manifest as Body),
          dependencies: [
            {
              id: 'a2a:https://agents.example.com/card.json',
              name: 'translator',
              headers: { Authorization: `Bearer \${SEARCH_KEY}` },
              approval: 'always',
            },
            { id: 'a2a:https://agents.example.com/other.json', name: 'lawyer', connection: 'law' },
            { id: 'acme/other', version: 'v1' },
          ],
        },
      },
      {
        loop: {
          max_turns: 25,
          mcp_servers: [
            {
              name: 'translator',
              url: 'https://agents.example.com/card.json',
              transport: 'a2a',
              headers: { Authorization: `Bearer \${SEARCH_KEY}` },
              read_only: false,
              optional: false,
              approval: {},
            },
            { name: 'lawyer', url: 'https://agents.example.com/other.json', transport: 'a2a', connection: 'law' },
          ],
        },
        manifest: { ...(agent.manifest as Body), per_call_downstream_cap: 50, orchestration_mode: 'strict' },
      },
    ],
    [
      'a whole SKILL.md',
      { name: 'tone', type: 'skill', prompt: '---\nname: tone\ndescription: >\n  How we\n  write.\n---\n\n# Tone\n' },
      { description: 'How we write.', prompt: '# Tone' },
    ],
    [
      'the files of a skill',
      { ...skill, skill_files: [{ path: 'ref/a.md', content: 'ü', size: 99 }] },
      { skill_files: [{ path: 'ref/a.md', content: 'ü', size: 2 }] },
    ],
  ])('%s', (_, body, expected) => {
    expect(accept(body).definition).toMatchObject(expected);
  });
});

describe('a manifest of a real repository is published', () => {
  test.each<[string, Body]>([
    [
      'code with entrypoint and version',
      {
        name: 'leak-finder',
        type: 'code',
        version: 'v1',
        description: 'x',
        entrypoint: 'sandbox_main.py',
        url: 'https://tool.internal',
        is_public: true,
        required_secrets: [],
        supported_providers: ['any'],
        manifest: { dependencies: [], max_hops: 1 },
      },
    ],
    [
      'agentic with tools at the top',
      {
        name: 'reviewer',
        type: 'agentic',
        description: 'x',
        prompt: 'Review.',
        max_turns: 15,
        custom_tools: [
          {
            name: 'run_tests',
            description: 'x',
            command: "pytest '{{path}}'",
            input_schema: { properties: { path: {} } },
          },
        ],
        required_secrets: [],
      },
    ],
    [
      'a number in what a shell runs',
      {
        ...agent,
        loop: {
          custom_tools: [
            callTool,
            {
              name: 'lines',
              description: 'x',
              command: "sed -n '{{from}}p' f",
              input_schema: { properties: { from: { type: 'integer' } } },
            },
          ],
        },
      },
    ],
    ['dependencies at the top that declare none', { ...tool, dependencies: [], max_hops: 1 }],
    [
      'a record that was read back',
      { ...agent, id: 'x', created_at: 'y', org_slug: 'z', execution_engine: 'managed_loop' },
    ],
  ])('%s', (_, body) => {
    accept(body);
  });
});

describe('is refused:', () => {
  const withTool = (changes: Body) => ({
    ...agent,
    loop: { custom_tools: [callTool, { ...callTool, name: 'two', ...changes }] },
  });
  const withManifest = (changes: Body) => ({ ...agent, manifest: { ...(agent.manifest as Body), ...changes } });

  test.each<[string, unknown, string]>([
    ['no object', [], ': the manifest must be a JSON object, but is an empty array'],
    ['null', null, ': the manifest must be a JSON object, but is null'],
    ['no name', { ...prompt, name: undefined }, 'name: must be the name of the agent, but is missing'],
    ['a short name', { ...prompt, name: 'a' }, 'name: must be 2-50'],
    ['a long name', { ...prompt, name: 'a'.repeat(51) }, 'name: must be 2-50'],
    ['capitals', { ...prompt, name: 'Summarise' }, 'name: must be 2-50 lower-case letters, digits and single hyphens'],
    ['its value', { ...prompt, name: 'Summarise' }, 'but is "Summarise"'],
    ['a hyphen at the end', { ...prompt, name: 'a-' }, 'name: must be'],
    ['two hyphens', { ...prompt, name: 'a--b' }, 'name: must be'],
    ['a number as name', { ...prompt, name: 7 }, 'name: must be'],
    ['an unknown type', { ...prompt, type: 'bot' }, 'type: must be prompt, tool, agent or skill'],
    ['no description', { ...prompt, description: undefined }, 'description: must be a text'],
    ['an empty description', { ...prompt, description: ' ' }, 'description: must not be empty'],
    ['a blank description of a skill', { ...skill, description: ' '.repeat(1025) }, 'description: must not be empty'],
    [
      'a prompt agent without prompt',
      { ...prompt, prompt: undefined },
      'prompt: must be the text of the prompt, but is missing',
    ],
    ['an empty prompt', { ...prompt, prompt: ' ' }, 'prompt: must be the text'],
    ['an agent without prompt', { ...agent, prompt: undefined }, 'prompt: must be the text'],
    ['a skill without text', { ...skill, prompt: '' }, 'prompt: must be the text'],
    [
      'a file name for a prompt',
      { ...prompt, prompt: undefined, prompt_template: 'prompt.md' },
      'prompt_template only names "prompt.md"',
    ],
    [
      'an unknown run mode',
      { ...prompt, run_mode: 'daemon' },
      'run_mode: must be on_demand or always_on, but is "daemon"',
    ],
    ['runtime and loop', { ...agent, runtime: { command: 'x' } }, 'loop: must not be set together with "runtime"'],
    ['a skill with runtime', { ...skill, runtime: { command: 'x' } }, 'runtime: must not be set: a skill does not run'],
    ['a skill with loop', { ...skill, loop: {} }, 'loop: must not be set: a skill does not run'],
    ['an always-on prompt', { ...prompt, run_mode: 'always_on' }, 'run_mode: must be on_demand here'],
    ['a skill with a price', { ...skill, price_per_call_cents: 5 }, 'price_per_call_cents: must be absent for a skill'],
    ['an always-on skill', { ...skill, run_mode: 'always_on' }, 'run_mode: must be on_demand here'],
    [
      'always on without a command',
      { ...tool, run_mode: 'always_on', runtime: {} },
      'run_mode: must be on_demand without a runtime.command',
    ],
    [
      'a runtime of another shape',
      { ...tool, runtime: 'python3 main.py' },
      'runtime: must be an object, but is a string of 15',
    ],
    ['an empty command', { ...tool, runtime: { command: ' ' } }, 'runtime.command: must not be empty'],
    [
      'NUL in a command',
      { ...tool, runtime: { command: 'a\0b' } },
      'runtime.command: must not contain control characters',
    ],
    ['0 turns', { ...agent, loop: { max_turns: 0 } }, 'loop.max_turns: must be from 1 to 50, but is 0'],
    ['51 turns', { ...agent, loop: { max_turns: 51 } }, 'loop.max_turns: must be from 1 to 50, but is 51'],
    ['half a turn', { ...agent, loop: { max_turns: 1.5 } }, 'loop.max_turns: must be a whole number'],
    [
      'an unknown tool of the platform',
      { ...agent, loop: { tools: ['read_file', 'read_mail'] } },
      'loop.tools[1]: must be one of bash, read_file, write_file, list_files, later, ask_human, wait, event_url, memory_list, memory_read, memory_write, memory_delete, web_search, web_fetch, or a tool of mcp_servers: submit_result and your own tools are always available, but is "read_mail"',
    ],
    ['tools that are no list', { ...agent, loop: { tools: 'bash' } }, 'loop.tools: must be an array'],
    ['no money', { ...agent, loop: { max_cost_usd: 0 } }, 'loop.max_cost_usd: must be more than 0: leave it out'],
    ['asking about no limit', { ...agent, loop: { on_max_cost: 'ask' } }, 'loop.on_max_cost: must be left out without'],
    ['another word for it', { ...agent, loop: { max_cost_usd: 1, on_max_cost: 'stop' } }, 'loop.on_max_cost: must be'],
    ['money as text', { ...agent, loop: { max_cost_usd: '$1' } }, 'loop.max_cost_usd: must be a number of US dollars'],
    ['51 older turns', { ...agent, max_turns: 51 }, 'max_turns: must be from 1 to 50'],
    [
      'the gate of a skill',
      { ...skill, evals: { gate: true } },
      'evals: must be left out here: only agents with run_mode',
    ],
    [
      'the gate of a service',
      { ...tool, run_mode: 'always_on', runtime: { command: 'x' }, evals: { gate: true } },
      'evals: must be left out here',
    ],
    ['a gate that is no answer', { ...prompt, evals: { gate: 1 } }, 'evals.gate: must be true or false, but is 1'],
    [
      'another baseline',
      { ...prompt, evals: { baseline: '3' } },
      'evals.baseline: must be "latest" or a version such as',
    ],
    ['a channel as baseline', { ...prompt, evals: { baseline: 'prod' } }, 'evals.baseline: must be "latest" or'],
    ['unknown settings', { ...prompt, evals: { gates: true } }, 'evals: '],
    ['a share above 1', online({ sample: 5 }), 'evals.online.sample: must be a number from 0 to 1'],
    ['no asserts', online({ assert: [] }), 'evals.online.assert: must be a list of 1 to 20 asserts'],
    ['21 asserts', online({ assert: Array(21).fill({ type: 'is-json' }) }), 'evals.online.assert: must be a list of 1'],
    ['another type', online({ assert: [{ type: 'near' }] }), 'evals.online.assert[0].type: "near" is not a type'],
    ['no value', online({ assert: [{ type: 'contains' }] }), 'evals.online.assert[0].value: contains needs a value'],
    [
      'a file',
      online({ assert: [{ type: 'python', value: 'file://a.py' }] }),
      'evals.online.assert[0].value: must be the value itself',
    ],
    ['a rubric without a judge', online(judged), 'evals.online.judge: must be given'],
    ['two judges', online({ judge: { model: 'a', agent: 'b' } }), 'evals.online.judge: must have either'],
    ['tools of a prompt', online({ assert: [{ type: 'tool-called', value: 'x' }] }), 'about tools, which only loops'],
    [
      'the name of the sum',
      online({ assert: [{ type: 'is-json', metric: 'online' }] }),
      'metric: must be another word',
    ],
    ['a name with spaces', online({ assert: [{ type: 'is-json', metric: 'a b' }] }), 'metric: must be 1 to 64 of a-z'],
    ['no weight', online({ assert: [{ type: 'is-json', weight: 0 }] }), 'must have an assert whose weight is more'],
    ['a negative budget', online({ budget_usd_per_day: -1 }), 'budget_usd_per_day: must be a number of US dollars'],
    [
      'long asserts',
      online({ assert: [{ type: 'contains', value: 'x'.repeat(33_000) }] }),
      'evals.online.assert: must be at most 32768 bytes',
    ],
    ['evals that are no object', { ...prompt, evals: [] }, 'evals: must be an object with gate, baseline and online'],
    ['files of a prompt', { ...prompt, workspace: true }, 'workspace: must be left out here: only loops and programs'],
    [
      'files of a service',
      { ...tool, run_mode: 'always_on', runtime: { command: 'x' }, workspace: true },
      'workspace: must be left out here: only loops and programs with run_mode on_demand',
    ],
    ['files by name', { ...agent, workspace: 'yes' }, 'workspace: must be'],
    [
      'a loop that begins again',
      { ...agent, retry_on_interruption: true },
      'retry_on_interruption: must be false here',
    ],
    [
      'a service that begins again',
      { ...tool, run_mode: 'always_on', runtime: { command: 'x' }, retry_on_interruption: true },
      'retry_on_interruption: must be false here: only programs',
    ],
    [
      'a limit of an agent without runs',
      { ...tool, run_mode: 'always_on', runtime: { command: 'x' }, concurrency: { limit: 1 } },
      'concurrency: must be left out here: only agents with run_mode on_demand have runs',
    ],
    [
      'a key that is no pointer',
      { ...prompt, rate: { count: 1, seconds: 1, key: 'a' } },
      'rate.key: must be a JSON pointer',
    ],
    ['no time', { ...tool, timeout_seconds: 0 }, 'timeout_seconds: must be more than 0; only always_on'],
    ['negative time', { ...tool, timeout_seconds: -1 }, 'timeout_seconds: must not be negative, but is -1'],
    ['time as text', { ...tool, timeout_seconds: '60' }, 'timeout_seconds: must be a number of seconds, but is "60"'],
    ['callable as text', { ...tool, callable: 'yes' }, 'callable: must be true or false, but is "yes"'],
    [
      'an unknown provider',
      { ...prompt, supported_providers: ['azure'] },
      'supported_providers[0]: must be one of anthropic,',
    ],
    ['providers as text', { ...prompt, supported_providers: 'openai' }, 'supported_providers: must be an array'],
    [
      'an agent with other providers',
      { ...agent, supported_providers: ['anthropic', 'openai'] },
      'supported_providers: must be only "anthropic" for type "agent", but has openai, too. For a loop with other providers, set "type" to "prompt" (or "tool") and keep "loop"',
    ],
    [
      'a model of an unknown provider',
      { ...prompt, default_models: { azure: 'x' } },
      'default_models.azure: must be one of anthropic,',
    ],
    [
      'a tool without secrets',
      { ...tool, required_secrets: undefined },
      'required_secrets: must be declared for a tool',
    ],
    ['a tool with null for secrets', { ...tool, required_secrets: null }, 'required_secrets: must be declared'],
    [
      'an agent without secrets',
      { ...agent, required_secrets: undefined },
      'required_secrets: must be declared for an agent',
    ],
    [
      'the flag set to false',
      { ...tool, required_secrets: null, no_required_secrets: false },
      'required_secrets: must be declared',
    ],
    ['a bad secret name', { ...tool, required_secrets: ['my_key'] }, 'required_secrets[0]: must be upper-case letters'],
    ['a bad optional name', { ...tool, optional_secrets: ['1A'] }, 'optional_secrets[0]: must be upper-case letters'],
    ['a long secret name', { ...tool, required_secrets: ['A'.repeat(129)] }, 'required_secrets[0]: must be'],
    [
      'the service key as a secret',
      { ...tool, required_secrets: ['PLATFORM_SERVICE_KEY'] },
      'required_secrets: must not have PLATFORM_SERVICE_KEY: the platform sets it itself',
    ],
    [
      'the service key as optional',
      { ...tool, optional_secrets: ['PLATFORM_SERVICE_KEY'] },
      'optional_secrets: must not have',
    ],
    ['PATH as a secret', { ...tool, required_secrets: ['PATH'] }, 'required_secrets: must not have PATH'],
    ['a bad endpoint', { ...prompt, default_endpoint: 'a/b' }, 'default_endpoint: must be letters, digits'],
    ['a long tag', { ...prompt, tags: ['x'.repeat(51)] }, 'tags[0]: must be at most 50 characters'],
    ['a bad skill', { ...prompt, default_skills: ['a/b/c'] }, 'default_skills[0]: must be "skill", "org/skill"'],
    ['a bad skill version', { ...prompt, default_skills: ['a/b@1'] }, 'default_skills[0]: must be "skill"'],
    ['an entrypoint outside', { ...tool, entrypoint: '../main.py' }, 'entrypoint: has ".."'],
    ['an entrypoint of no interpreter', { ...tool, entrypoint: 'main.rb' }, 'entrypoint: must end in .py'],
    ['a source over http', { ...tool, source_url: 'http://example.org/a' }, 'source_url: must be a git address'],
    [
      'a source with a password',
      { ...tool, source_url: 'https://u:p@example.org/a' },
      'source_url: must be a git address',
    ],
    ['an option as source', { ...tool, source_url: '--upload-pack=x' }, 'source_url: must be a git address'],
    ['an option as package', { ...tool, pip_package: '-r x' }, 'pip_package: must be a package requirement'],
    ['a script as address', { ...prompt, url: 'javascript:alert(1)' }, 'url: must be an http(s) address'],
    [
      'shell in flags',
      { ...tool, environment: { pip_flags: '; rm -rf /' } },
      'environment.pip_flags: must be command-line flags',
    ],
    ['a substitution in flags', { ...tool, environment: { npm_flags: '$(x)' } }, 'environment.npm_flags: must be'],
    [
      'a version as number',
      { ...tool, environment: { python_version: 3.11 } },
      'environment.python_version: must be a version',
    ],
    ['tasks without default', { ...prompt, model_tasks: { fast: 'x' } }, 'model_tasks: must have the task "default"'],
    ['a bad task', { ...prompt, model_tasks: { default: 'x', 'A b': 'y' } }, 'model_tasks["A b"]: must have a name'],
    ['a price of nothing', { ...prompt, pricing_mode: 'per_call' }, 'price_per_call_cents: must be at least 1'],
    [
      'free for money',
      { ...prompt, pricing_mode: 'free', price_per_call_cents: 3 },
      'price_per_call_cents: must be absent',
    ],
    ['half a cent', { ...prompt, price_per_call_cents: 0.5 }, 'price_per_call_cents: must be a whole number of cents'],
    ['a bad input schema', { ...prompt, input_schema: { type: 'text' } }, 'input_schema.type: must be one of'],
    ['a bad output schema', { ...prompt, output_schema: [] }, 'output_schema: must be a JSON Schema'],

    ['a tool without name', withTool({ name: undefined }), 'custom_tools[1].name: must be 1-64 letters'],
    [
      'a tool without description',
      withTool({ description: undefined }),
      'custom_tools[1].description: must be a string, but is missing',
    ],
    ['a tool without command', withTool({ command: '' }), 'custom_tools[1].command: must not be empty'],
    [
      'a tool with a built-in name',
      withTool({ name: 'bash' }),
      'custom_tools[1].name: is "bash", the name of a built-in tool',
    ],
    ['two tools of a name', withTool({ name: 'ask' }), 'custom_tools[1].name: is "ask" a second time'],
    [
      'placeholders without schema',
      withTool({ command: 'cat {{p}}' }),
      'custom_tools[1].input_schema: is required because',
    ],
    [
      'a placeholder in what a shell runs',
      withTool({ command: "sh -c 'cat {{p}}'", input_schema: { properties: { p: { type: 'string' } } } }),
      'custom_tools[1].command: has {{p}} in the program text of sh',
    ],
    ['a bad tool schema', withTool({ input_schema: { type: 7 } }), 'custom_tools[1].input_schema.type: must be'],
    [
      'a tool schema of no object',
      withTool({ input_schema: { type: 'string' } }),
      'input_schema.type: must be "object", but is "string"',
    ],
    [
      'tools as object',
      { ...agent, loop: { custom_tools: {} } },
      'loop.custom_tools: must be an array of tools, but is an object',
    ],

    [
      'another manifest version',
      withManifest({ manifest_version: 2 }),
      'manifest.manifest_version: must be 1, but is 2',
    ],
    [
      'no manifest version',
      withManifest({ manifest_version: null }),
      'manifest.manifest_version: must be 1, but is missing',
    ],
    [
      'an agent of others without a name',
      withManifest({ dependencies: [{ id: 'a2a:https://agents.example.com/card.json' }] }),
      'manifest.dependencies[0].name: must be a name for the agent, but is missing',
    ],
    [
      'an agent of others with a version',
      withManifest({ dependencies: [{ id: 'a2a:https://agents.example.com/c', name: 'x', version: 'v1' }] }),
      'manifest.dependencies[0].version: must be left out',
    ],
    [
      'an agent of others with a secret in its manifest',
      withManifest({
        dependencies: [
          { id: 'acme/other', version: 'v1' },
          { id: 'a2a:https://agents.example.com/c', name: 'x', headers: { Authorization: 'Bearer made-up' } },
        ],
      }),
      'manifest.dependencies[1].headers.Authorization: must take its value from a secret',
    ],
    [
      'an agent of others for a program',
      { ...tool, manifest: { dependencies: [{ id: 'a2a:https://agents.example.com/c', name: 'x' }] } },
      'manifest.dependencies: may name agents by their card only in a loop',
    ],
    ['no hops', withManifest({ max_hops: 0 }), 'manifest.max_hops: must be at least 1 with dependencies, but is 0'],
    [
      'hops missing',
      withManifest({ max_hops: undefined }),
      'manifest.max_hops: must be at least 1 with dependencies, but is missing',
    ],
    ['time missing', withManifest({ timeout_ms: undefined }), 'manifest.timeout_ms: is required with dependencies'],
    ['time of 0', withManifest({ timeout_ms: 0 }), 'manifest.timeout_ms: must be at least 1, but is 0'],
    [
      'a negative cap',
      withManifest({ per_call_downstream_cap: -1 }),
      'manifest.per_call_downstream_cap: must be at least 0',
    ],
    [
      'an unknown mode',
      withManifest({ orchestration_mode: 'loose' }),
      'manifest.orchestration_mode: must be "strict" or',
    ],
    [
      'an unknown visibility',
      withManifest({ visibility: 'all' }),
      'manifest.visibility: must be "public" or "private"',
    ],
    [
      'more hops needed than allowed',
      withManifest({ min_required_hops: 3 }),
      'manifest.min_required_hops: must be at most max_hops (2)',
    ],
    [
      'a map of dependencies',
      withManifest({ dependencies: { 'acme/other': 'v1' } }),
      'manifest.dependencies: must be an array of {"id"',
    ],
    [
      'a bad dependency',
      withManifest({ dependencies: [{ id: 'other', version: 'v1' }] }),
      'dependencies[0].id: must be "org/agent"',
    ],
    [
      'a dependency as text',
      withManifest({ dependencies: ['acme/other@v1'] }),
      'dependencies[0]: must be an object with id and',
    ],
    ...['latest', '^v1', 'v1.x', '1', 'v0', 'v1.0', undefined].map((version): [string, unknown, string] => [
      `the pin ${version}`,
      withManifest({ dependencies: [{ id: 'acme/other', version }] }),
      'manifest.dependencies[0].version: must be an exact version such as "v1"',
    ]),
    [
      'a dependency twice',
      withManifest({
        dependencies: [
          { id: 'acme/other', version: 'v1' },
          { id: 'acme/other', version: 'v1' },
        ],
      }),
      'manifest.dependencies[1]: is acme/other@v1 a second time',
    ],
    [
      'a dependency that no tool calls',
      withManifest({
        dependencies: [
          { id: 'acme/other', version: 'v1' },
          { id: 'acme/third', version: 'v4' },
        ],
      }),
      'platform_call.py acme/third@v4',
    ],
    ...['dependencies', 'max_hops', 'timeout_ms', 'manifest_version', 'per_call_downstream_cap'].map(
      (name): [string, unknown, string] => [
        `${name} beside the section`,
        { ...tool, [name]: 1 },
        `${name}: must be inside "manifest" (as manifest.${name})`,
      ],
    ),

    [
      'a skill of another name',
      { ...skill, prompt: '---\nname: other\ndescription: x\n---\nb' },
      'name: must be the name in SKILL.md, "other"',
    ],
    [
      'front matter without an end',
      { ...skill, prompt: '---\nname: tone\n' },
      'SKILL.md: must begin with front matter',
    ],
    ['a file outside', { ...skill, skill_files: [{ path: '../x', content: '' }] }, 'skill_files[0].path: has ".."'],
    ['a file without content', { ...skill, skill_files: [{ path: 'x' }] }, 'skill_files[0].content: must be a string'],
  ])('%s', (_, body, expected) => {
    expect(errorsOf(body).join('\n')).toContain(expected);
  });

  test('with all problems, each named once', () => {
    const body = {
      name: '',
      type: 'tool',
      tags: 'x',
      runtime: { command: 'x' },
      loop: { max_turns: 99 },
      timeout_seconds: 0,
    };
    expect(checkDefinition(body).errors.map(({ field }) => field)).toEqual([
      'name',
      'tags',
      'loop',
      'loop.max_turns',
      'timeout_seconds',
      'description',
      'required_secrets',
    ]);
  });

  test('with one problem for a description that is too long', () => {
    const expected = expect.stringContaining('description: must be at most 2,000');
    expect(errorsOf({ ...prompt, description: 'd'.repeat(3000) })).toEqual([expected]);
  });

  test('without showing a text that may be a secret', () => {
    const secrets = [
      'sk_live_abcdef',
      'AKIAIOSFODNN7EXAMPLE',
      'ghp_16C7e42F292c6912E7710c838347Ae178B4a',
      'hunter2hunter2hunter2',
    ];
    const bodies = secrets.flatMap((secret) => [
      ...Object.keys(prompt).map((name) => ({ ...prompt, [name]: secret })),
      ...['required_secrets', 'tags', 'runtime', 'url', 'default_endpoint'].map((name) => ({
        ...tool,
        [name]: [secret],
      })),
      {
        ...tool,
        required_secrets: [secret.toLowerCase()],
        source_url: `https://u:${secret}@example.org/`,
        environment: { pip_flags: `;${secret}` },
      },
    ]);
    for (const body of bodies) {
      const text = JSON.stringify(checkDefinition(body).errors);
      for (const secret of secrets) expect(text.toLowerCase()).not.toContain(secret.toLowerCase());
    }
  });
});

describe('a warning is given for', () => {
  test.each<[string, Body, string]>([
    ['a model', { ...prompt, model: 'x' }, '"model" is ignored'],
    [
      'an unknown member',
      { ...prompt, promt: 'x' },
      '"promt" is not a member of a manifest and is ignored: did you mean "prompt"?',
    ],
    [
      'a misspelt member of runtime',
      { ...tool, runtime: { comand: 'x' } },
      'runtime.comand has no effect: runtime has no such member: did you mean "command"?',
    ],
    [
      'a member of runtime whose place is beside it',
      { ...tool, runtime: { command: 'x', timeout_seconds: 5 } },
      'runtime.timeout_seconds has no effect: it belongs beside "runtime".',
    ],
    [
      'an unknown member of loop',
      { ...agent, loop: { maxTurns: 5, custom_tools: [callTool] } },
      'loop.maxTurns has no effect: loop has no such member: did you mean "max_turns"?',
    ],
    [
      'an unknown member of the section',
      { ...agent, manifest: { ...(agent.manifest as Body), maxhops: 2 } },
      'manifest.maxhops has no effect: manifest has no such member: did you mean "max_hops"?',
    ],
    [
      'an unknown member of a dependency',
      {
        ...agent,
        manifest: { ...(agent.manifest as Body), dependencies: [{ id: 'acme/other', version: 'v1', name: 'x' }] },
      },
      'manifest.dependencies[0].name has no effect',
    ],
    [
      'an unknown member of a tool',
      { ...agent, custom_tools: [{ ...callTool, schema: {} }] },
      'custom_tools[0].schema has no effect: custom_tools[0] has no such member: did you mean "input_schema"?',
    ],
    [
      'an unknown member of environment',
      { ...tool, environment: { python: '3.11' } },
      'did you mean "python_version"?',
    ],
    ['an unknown member of bundle', { ...tool, bundle: { exlude: ['a'] } }, 'did you mean "exclude"?'],
    [
      'a placeholder that the input schema misspells',
      { ...prompt, prompt: 'Hi {{nmae}}', input_schema: { properties: { name: {} } } },
      'The prompt has the placeholder {{nmae}}, which input_schema does not define: did you mean {{name}}?',
    ],
    [
      'a placeholder that calls may leave out',
      { ...prompt, prompt: 'In {{language}}', input_schema: { properties: { language: { type: 'string' } } } },
      'placeholder {{language}}, for which input_schema has no default and which it does not require: calls without it are refused.',
    ],
    [
      'more than 300 s',
      { ...tool, timeout_seconds: 900 },
      'timeout_seconds is 900, but the platform ends every call after 300',
    ],
    ['any provider for an agent', { ...agent, supported_providers: ['any'] }, 'treated as "anthropic"'],
    [
      'custom tools without a loop',
      { ...tool, custom_tools: [callTool] },
      'Custom tools, mcp_servers and max_turns are ignored',
    ],
    ['files of no skill', { ...tool, skill_files: [{ path: 'a', content: '' }] }, 'skill_files are ignored'],
    [
      'tools inside the section',
      { ...agent, loop: {}, manifest: { custom_tools: [callTool] } },
      'manifest.custom_tools is ignored',
    ],
    [
      'a placeholder without property',
      {
        ...agent,
        loop: { custom_tools: [callTool, { name: 'x', description: 'x', command: 'cat {{p}}', input_schema: {} }] },
      },
      'custom_tools[1].command has the placeholder {{p}}',
    ],
    [
      'a variable that runs code',
      { ...tool, optional_secrets: ['NODE_OPTIONS'] },
      'optional_secrets: with NODE_OPTIONS, a workspace that calls this agent can run code',
    ],
    ['a call of no dependency', { ...agent, manifest: undefined }, 'calls acme/other, which is not one of'],
    [
      'a call of another version',
      { ...agent, manifest: { ...(agent.manifest as Body), dependencies: [{ id: 'acme/other', version: 'v2' }] } },
      'calls acme/other@v1, but manifest.dependencies pins v2',
    ],
  ])('%s', (_, body, expected) => {
    expect(accept(body).warnings.join('\n')).toContain(expected);
  });

  test.each<[string, Body]>([
    [
      'placeholders with a value in every call',
      { prompt: '{{a}} {{ b }}', input_schema: { properties: { a: {}, b: { default: 1 } }, required: ['a'] } },
    ],
    ['placeholders without a schema', { prompt: '{{a}}' }],
    [
      'placeholders that parts of the schema may name',
      { prompt: '{{a}}', input_schema: { $ref: '#/$defs/x', $defs: { x: {} } } },
    ],
    [
      'what records show',
      {
        id: 'x',
        version: 'v1',
        runtime: null,
        environment: { pip_flags: '-q', node_version: null },
        manifest: { environment: null, custom_tools: null },
      },
    ],
  ])('and none for %s', (_, members) => {
    expect(accept({ ...prompt, ...members }).warnings).toEqual([]);
  });

  test('and at most fifty for members that are none, however many there are', () => {
    const many = Object.fromEntries(Array.from({ length: 200_000 }, (_, n) => [`member${n}`, 1]));
    expect(accept({ ...tool, ...many, runtime: many }).warnings.length).toBeLessThan(80);
  });

  test('a timeout above the limit becomes the limit', () => {
    expect(accept({ ...tool, timeout_seconds: 900 }).definition.timeout_seconds).toBe(300);
  });
});

test.each<[string, Body]>([
  ['in the manifest', { description: 'd'.repeat(3000) }],
  ['in SKILL.md', { description: undefined, prompt: skillText(3000) }],
  ['in both', { description: 'd'.repeat(3000), prompt: skillText(5000) }],
])('the long description of a skill %s is cut with a warning', (_, members) => {
  const { definition, warnings } = accept({ ...prompt, type: 'skill', ...members });
  expect(definition.description).toBe(`${'d'.repeat(1023)}…`);
  expect(warnings).toEqual(['The description was cut to 1024 of its 3000 characters: that of a skill may have 1024.']);
});

describe('checkUpdate', () => {
  const current = accept(tool).definition;

  test('keeps the files of a skill, whose contents may be stored elsewhere', () => {
    const stored = { ...accept(skill).definition, skill_files: [{ path: 'a', size: 3, sha256: 'ab' }] };
    expect(checkUpdate(stored, { tags: ['a'] }).definition).toEqual({ ...stored, tags: ['a'] });
    expect(checkUpdate(stored, { description: 'd'.repeat(1025) })).toEqual({
      errors: [{ field: 'description', message: 'must be at most 1,024 characters for a skill' }],
      warnings: [],
    });
  });

  test.each<[Body, Body]>([
    [{}, {}],
    [{ description: 'New.' }, { description: 'New.' }],
    [
      { is_public: true, allow_local_download: true },
      { is_public: true, allow_local_download: true },
    ],
    [
      { tags: ['a'], default_endpoint: 'count' },
      { tags: ['a'], default_endpoint: 'count' },
    ],
    [
      { timeout_seconds: 5, supported_providers: ['openai'] },
      { timeout_seconds: 5, supported_providers: ['openai'] },
    ],
    [
      { default_models: { gemini: 'x' }, default_skills: ['a/b'] },
      { default_models: { gemini: 'x' }, default_skills: ['a/b'] },
    ],
    [{ price_per_call_cents: 3 }, { price_per_call_cents: 3 }],
    [{ tags: null }, { tags: [] }],
  ])('%j', (patch, changed) => {
    expect(checkUpdate(current, patch)).toEqual({ definition: { ...current, ...changed }, errors: [], warnings: [] });
  });

  test.each<[unknown, string, string]>([
    ...[
      'run_mode',
      'runtime',
      'loop',
      'callable',
      'skills_locked',
      'name',
      'type',
      'prompt',
      'required_secrets',
      'version',
    ].map((name): [unknown, string, string] => [{ [name]: null }, name, 'cannot be changed once it is published']),
    [{ colour: 'red' }, 'colour', 'is not a member that can be changed; those are description'],
    [{ timeout_seconds: 0 }, 'timeout_seconds', 'must be more than 0'],
    [{ description: null }, 'description', 'but is missing'],
    [[], '', 'must be a JSON object'],
  ])('refuses %j', (patch, field, message) => {
    const { definition, errors } = checkUpdate(current, patch);
    expect(definition).toBeUndefined();
    expect(errors).toEqual([{ field, message: expect.stringContaining(message) }]);
  });
});

test.each([prompt, tool, agent, skill])('checking a definition again changes nothing (%#)', (body) => {
  const { definition } = accept(body);
  expect(checkDefinition(JSON.parse(JSON.stringify(definition)))).toEqual({ definition, errors: [], warnings: [] });
});

test('any body gets an answer, and an accepted definition is accepted again', () => {
  const names = [...Object.keys(accept(agent).definition), 'pricing_mode', 'max_turns', 'model', '__proto__'];
  const member = fc.tuple(fc.constantFrom(...names), fc.jsonValue({ maxDepth: 3 }));
  fc.assert(
    fc.property(fc.constantFrom(prompt, tool, agent, skill), fc.array(member, { maxLength: 4 }), (base, changes) => {
      const { definition, errors } = checkDefinition({ ...base, ...Object.fromEntries(changes) });
      if (definition === undefined) expect(errors).not.toEqual([]);
      else expect(checkDefinition(definition).definition).toEqual(definition);
    }),
    { numRuns: 500 },
  );
});

describe('model_settings', () => {
  test('are kept without members that are null', () => {
    const model_settings = {
      effort: 'low',
      seed: null,
      anthropic: { temperature: null, stop: ['x'] },
      callers_may_set: ['effort'],
    };
    const { definition, warnings } = accept({ ...prompt, model_settings });
    expect(definition!.model_settings).toEqual({
      effort: 'low',
      anthropic: { stop: ['x'] },
      callers_may_set: ['effort'],
    });
    expect(warnings).toEqual([]);
    expect(accept(definition as Body).definition).toEqual(definition);
  });

  test.each<[unknown, string, string]>([
    ['low', 'model_settings', 'must be an object'],
    [{ effort: 'xhigh' }, 'model_settings.effort', 'must be one of none, low, medium, high, max'],
    [{ openai: { temperature: 3 } }, 'model_settings.openai.temperature', 'must be a number from 0 to 2'],
    [{ max_output_tokens: 0 }, 'model_settings.max_output_tokens', 'must be a whole number from 1 to 1,000,000'],
    [{ stop: [' '] }, 'model_settings.stop[0]', 'must be a text of 1 to 100 characters'],
    [{ stop: ['a', 'b', 'c', 'd', 'e'] }, 'model_settings.stop', 'must be at most 4'],
    [{ seed: -1 }, 'model_settings.seed', 'must be a whole number from 0'],
    [{ parallel_tool_calls: 'no' }, 'model_settings.parallel_tool_calls', 'must be true or false'],
    [{ callers_may_set: ['tools'] }, 'model_settings.callers_may_set[0]', 'must be one of effort'],
  ])('%j is refused', (model_settings, field, message) => {
    const { errors } = checkDefinition({ ...prompt, model_settings });
    expect(errors).toEqual([{ field, message: expect.stringContaining(message) }]);
  });

  test('without an effect are warned about', () => {
    const warningsOf = (body: Body, model_settings: unknown) => checkDefinition({ ...body, model_settings }).warnings;
    expect(warningsOf(prompt, { parallel_tool_calls: false })).toEqual([
      expect.stringContaining('a prompt has no tools'),
    ]);
    expect(warningsOf(agent, { parallel_tool_calls: false })).toEqual([]);
    expect(warningsOf(tool, { effort: 'low' })).toEqual([expect.stringContaining('only prompts and loops')]);
    expect(warningsOf(agent, { gemini: { seed: 1 } })).toEqual([expect.stringContaining('does not run with gemini')]);
    expect(warningsOf(prompt, { temprature: 1, ollama: { sed: 1 } })).toEqual([
      expect.stringMatching(/^model_settings\.temprature has no effect: .*"temperature"/),
      expect.stringMatching(/^model_settings\.ollama\.sed has no effect: .*"seed"/),
    ]);
  });
});
