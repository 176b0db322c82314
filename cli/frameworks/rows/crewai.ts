import { preferNames, pythonClasses, pythonEntries } from '../entries.ts';
import type { Framework, Project } from '../framework.ts';
import { pythonProgram } from '../python-program.ts';

const CODE = `crew = entry.crew() if hasattr(entry, "crew") else entry
if "stream" in getattr(type(crew), "model_fields", {}):
    crew.stream = True
answer = crew.kickoff(inputs=given)
if hasattr(type(answer), "result"):
    for chunk in answer:
        show(getattr(chunk, "content", ""))
    answer = answer.result
if getattr(answer, "pydantic", None) is not None:
    answer = answer.pydantic
elif getattr(answer, "json_dict", None) is not None:
    answer = answer.json_dict
elif hasattr(answer, "raw"):
    answer = answer.raw
result = {"output": answer}
`;

/** Returns the names in `{name}` of the texts of agents and tasks, which `kickoff` replaces by its inputs. */
function placeholdersIn({ sources }: Project): string[] {
  const texts = sources.filter(
    ({ path, text }) => /\.ya?ml$/.test(path) || (path.endsWith('.py') && /\bcrewai\b/.test(text)),
  );
  const names = texts.flatMap(({ path, text }) =>
    [...text.matchAll(/(?<![{$])\{([a-z_]\w*)\}(?!\})/gi)].flatMap((match) => {
      // In code, an f-string is filled by Python.
      const isFilled = path.endsWith('.py') && /\bf["'][^\n]*$/.test(text.slice(0, match.index).split('\n').at(-1)!);
      return isFilled ? [] : [match[1]!];
    }),
  );
  return [...new Set(names)];
}

export const crewai: Framework = {
  name: 'crewai',
  title: 'CrewAI',
  language: 'python',
  packages: ['crewai'],
  example: 'it must be a variable such as `crew = Crew(...)`, or a class with `@CrewBase`.',
  entriesIn(project) {
    const classes = pythonClasses(project, /^@CrewBase\s*\nclass (\w+)/gm);
    const flows = pythonClasses(project, /^class (\w+)\(Flow\b/gm);
    const found = flows.length > 0 ? flows : classes;
    return found.length > 0 ? found : preferNames(pythonEntries(project, /\bCrew\(/, /\bcrewai\b/), 'crew');
  },
  adapt(project, entry) {
    const names = placeholdersIn(project);
    const input = Object.fromEntries(names.map((name) => [name, name === 'current_year' ? '2026' : 'honey bees']));
    const properties = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
    return pythonProgram(project, entry, {
      title: 'CrewAI',
      environment: { CREWAI_DISABLE_TELEMETRY: 'true', OTEL_SDK_DISABLED: 'true' },
      code: CODE,
      input,
      inputSchema: { type: 'object', ...(names.length > 0 && { properties, required: names }) },
      outputSchema: {
        type: 'object',
        required: ['output'],
        properties: { output: { description: 'The answer of the crew.' } },
      },
      provider: 'openai',
    });
  },
};
