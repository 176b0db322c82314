import type { LlmTool } from '#core/ports/llm.ts';
import type { EngineRun } from '../engine.ts';
import { COMMAND_SECONDS, MAX_RESULT_BYTES, SUBMIT } from './tools.ts';

/**
 * What a loop's model is told before anything else (`contract.md` 11.3): where it is, what it has and how it ends, from
 * the platform; the skills that apply; the author's prompt. `owed` are tools of which one must succeed first.
 */
export function systemMessage(
  { agent, skills }: EngineRun,
  { tools, owed, maxTurns }: { tools: readonly LlmTool[]; owed: readonly string[]; maxTurns: number },
): string {
  const { output_schema, prompt } = agent.definition;
  const own = tools.filter(({ name }) => agent.definition.custom_tools.some((tool) => tool.name === name));
  const builtIn = tools.filter((tool) => !own.includes(tool) && tool.name !== SUBMIT);
  const names = (some: readonly LlmTool[]) => some.map(({ name }) => name).join(', ');
  const preamble = [
    'You are an agent that does its work with tools, without a person who could answer questions.',
    '# Where you are',
    `Your tools work in a sandbox that was made for this run and is removed after it: Linux, working directory /home/user.
Files that came with the call lie in /tmp/uploads/. A command may take ${COMMAND_SECONDS} seconds. Of results over ${MAX_RESULT_BYTES / 1024} KB you see
beginning and end. You have ${maxTurns} turns; tools that do not depend on each other can be called in the same turn.`,
    '# Tools',
    [`- Of the platform: ${names(builtIn)}`, ...own.map(({ name, description }) => `- ${name}: ${description}`)].join(
      '\n',
    ),
    ...(skills.length === 0
      ? []
      : ['# Skills', skills.map(({ name, description }) => `- ${name}: ${description}`).join('\n')]),
    '# How to end',
    `When the work is done, call ${SUBMIT} once: its parameters are the result, and nothing else that you write reaches the
caller.${
      output_schema === null
        ? ' Its parameter "result" is a text.'
        : ` The result must match this JSON Schema:\n\n${JSON.stringify(output_schema)}`
    }`,
    ...(owed.length === 0
      ? []
      : [
          `A result is accepted only after one of these tools, which call other agents, succeeded: ${owed.join(', ')}.`,
        ]),
  ].join('\n\n');
  return [preamble, ...skills.map((skill) => skill.text.trim()), prompt ?? ''].join('\n\n---\n\n');
}
