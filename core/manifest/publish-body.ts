/** Members of a manifest, in the order of `agent.json`. Schemas, prompt and skill files are separate files. */
const WRITTEN = [
  'name',
  'type',
  'description',
  'tags',
  'is_public',
  'allow_local_download',
  'run_mode',
  'callable',
  'runtime',
  'loop',
  'entrypoint',
  'run_command',
  'build',
  'environment',
  'supported_providers',
  'default_models',
  'model_settings',
  'model_tasks',
  'default_endpoint',
  'timeout_seconds',
  'retry_on_interruption',
  'durable',
  'reuse',
  'retry',
  'concurrency',
  'rate',
  'debounce',
  'sessions',
  'workspace',
  'evals',
  'accepts_files',
  'accept',
  'max_files',
  'required_secrets',
  'optional_secrets',
  'egress',
  'default_skills',
  'skills_locked',
  'manifest',
  'source_url',
  'pip_package',
  'url',
  'sdk_compatible',
  'price_per_call_cents',
] as const;

type Body = Record<string, unknown>;

/**
 * Returns the `agent.json` of a version from its record (`docs/interface/agents.md#records`), with all defaults filled
 * in.
 */
export function manifestOf(record: Readonly<Body>): Body {
  const given: Body = Object.fromEntries(
    WRITTEN.map((name) => [name, record[name]]).filter(([, value]) => value !== undefined && value !== null),
  );
  // Both members are also beside the section.
  const { custom_tools: _, environment: __, ...orchestration } = (given.manifest ?? {}) as Body;
  return { ...given, manifest: orchestration };
}

/** Returns the body of POST /agents that publishes a folder. */
export const bodyOfFolder = <T extends Body>({ body, evalFiles }: { readonly body: T; readonly evalFiles?: Body }) => ({
  ...body,
  ...(evalFiles && { eval_files: evalFiles }),
});

/** Returns the body of POST /agents that republishes a version unchanged, if it has no suites. */
export const publishBodyOf = (record: Readonly<Body>): Body => ({
  ...manifestOf(record),
  input_schema: record.input_schema,
  output_schema: record.output_schema,
  prompt: record.prompt,
  ...(record.type === 'skill' && { skill_files: record.skill_files }),
});
