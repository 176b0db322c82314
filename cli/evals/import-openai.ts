import { type Imported, isBody, USUAL_JUDGE } from './import-promptfoo.ts';

type Body = { readonly [member: string]: unknown };
type Item = Body;
/** Makes the assert of a criterion for one item. */
type Maker = (item: Item) => Body;

const OPERATIONS: { readonly [operation: string]: string } = {
  eq: 'equals',
  ne: 'not-equals',
  like: 'contains',
  ilike: 'icontains',
};

/**
 * Takes over an export of OpenAI's hosted evaluations: lines `{"item": {...}}` of data, or `{"datasource_item": {...}}` of a run's results, and an
 * object with `testing_criteria`, in the same file or another one (developers.openai.com/api/docs/guides/graders). Values of items are put into the asserts, so that `members` may say which of them the agent gets.
 */
export function fromOpenAi(
  lines: readonly unknown[],
  { judge, members }: { readonly judge: string | undefined; readonly members: readonly string[] | undefined },
): Imported {
  const left: string[] = [];
  const items: Item[] = [];
  const criteria: Body[] = [];
  for (const [index, line] of lines.entries()) {
    const item = isBody(line) ? (line.item ?? line.datasource_item) : undefined;
    if (isBody(item)) items.push(item);
    else if (isBody(line) && Array.isArray(line.testing_criteria))
      criteria.push(...line.testing_criteria.filter(isBody));
    else left.push(`line ${index + 1}: it has neither "item" nor "testing_criteria"`);
  }
  if (criteria.length === 0) left.push('testing_criteria: there are none; add asserts to the cases');
  let model: string | undefined;
  const makers = criteria.flatMap((each, index): Maker[] => {
    const name = `testing_criteria[${index}] (${String(each.type)})`;
    const made = makerOf(each);
    if (typeof made === 'string') {
      left.push(`${name}: ${made}`);
      return [];
    }
    left.push(...lossesOf(each).map((loss) => `${name}: ${loss}`));
    if (/_model$/.test(String(each.type))) {
      const wanted = typeof each.model === 'string' ? `openai/${each.model}` : USUAL_JUDGE;
      model ??= wanted;
      if (judge === undefined && wanted !== model)
        left.push(`${name}: a suite has one judge: ${model} in place of ${wanted}`);
    }
    return [made];
  });
  if (members === undefined && items.length > 0) {
    left.push('input: the agent gets the whole item, with its expected answer; --input chooses its members');
  }
  const tests = items.map((item) => {
    const chosen =
      members === undefined
        ? item
        : Object.fromEntries(members.filter((name) => name in item).map((name) => [name, item[name]]));
    return { vars: chosen, ...(makers.length > 0 && { assert: makers.map((make) => make(item)) }) };
  });
  return { suite: { ...(model !== undefined && { judge: { model: judge ?? model } }), tests }, left };
}

/** Returns how to make the assert of a criterion, or why it cannot be taken over. */
function makerOf(criterion: Body): Maker | string {
  const { type, name, source } = criterion;
  const metric = typeof name === 'string' && name !== '' ? { metric: name.slice(0, 500) } : {};
  const threshold = typeof criterion.pass_threshold === 'number' ? criterion.pass_threshold : undefined;
  switch (type) {
    case 'string_check': {
      const kind = OPERATIONS[String(criterion.operation)];
      if (kind === undefined) return `the operation ${String(criterion.operation)} is not known`;
      const compared = comparedIn(criterion, kind === 'equals' || kind === 'not-equals');
      if (typeof compared === 'string') return compared;
      return (item) => ({ type: kind, ...compared.part, value: filled(compared.reference, item), ...metric });
    }
    case 'text_similarity': {
      if (criterion.evaluation_metric !== 'fuzzy_match')
        return `the platform has no asserts with the measure ${String(criterion.evaluation_metric)}`;
      const compared = comparedIn(criterion, true);
      if (typeof compared === 'string') return compared;
      return (item) => {
        const value = filled(compared.reference, item);
        const distance = Math.max(0, Math.round((1 - (threshold ?? 1)) * value.length));
        return { type: 'levenshtein', ...compared.part, value, threshold: distance, ...metric };
      };
    }
    case 'label_model': {
      const [labels, passing] = [textsIn(criterion.labels), textsIn(criterion.passing_labels)];
      if (labels.length === 0 || passing.length === 0) return 'it has no labels, or none of them passes';
      return (item) => ({
        type: 'llm-rubric',
        value: `${messagesOf(criterion, item)}\n\nThe labels are: ${labels.join(', ')}. It passes if the label is one of: ${passing.join(', ')}.`,
        ...metric,
      });
    }
    case 'score_model': {
      const [low, high] = Array.isArray(criterion.range) ? (criterion.range as [number, number]) : [0, 1];
      if (!(high > low)) return `the range from ${low} to ${high} is empty`;
      const share = threshold === undefined ? undefined : (threshold - low) / (high - low);
      return (item) => ({
        type: 'llm-rubric',
        value: `${messagesOf(criterion, item)}\n\nWhere this says a score from ${low} to ${high}, give it as a share from 0 to 1.`,
        ...(share !== undefined && { threshold: Math.min(1, Math.max(0, share)) }),
        ...metric,
      });
    }
    case 'python': {
      if (typeof source !== 'string' || !/^def grade\(/m.test(source))
        return 'its source has no function grade(sample, item)';
      const limit = threshold === undefined ? {} : { threshold };
      return (item) => ({ type: 'python', value: programOf(source, item), ...limit, ...metric });
    }
    default:
      return 'the platform has no such criteria';
  }
}

/** Returns what is taken over, but not as it was. */
function lossesOf({ type, pass_threshold, sampling_params, input, source }: Body): string[] {
  const text = JSON.stringify(input ?? '');
  const loses: readonly (readonly [boolean, string])[] = [
    [type === 'text_similarity', 'its measure is now the distance of Levenshtein, which is stricter'],
    [sampling_params !== undefined, 'sampling_params: the judge has its own settings'],
    [type === 'score_model' && pass_threshold === undefined, 'it has no pass_threshold: the judge decides what passes'],
    [type === 'python' && pass_threshold === undefined, 'it has no pass_threshold: a score greater than 0 passes'],
    [
      type === 'python' && /^[ \t]*(?:import|from)[ \t]/m.test(String(source)),
      "its imports find Python's own library alone",
    ],
    [
      /"type":"(input_image|input_audio|image_url|input_file)"/.test(text),
      'images, sounds and files of its messages are left out',
    ],
    [
      /_model$/.test(String(type)) && text.replaceAll(KNOWN_TEMPLATES, '').includes('{{'),
      'templates other than {{ item.NAME }} and {{ sample.output_text }} stay as they are',
    ],
  ];
  return loses.flatMap(([isLost, loss]) => (isLost ? [loss] : []));
}

const PATH = String.raw`((?:\.[A-Za-z_][\w-]*)+)`;
const OUTPUT = new RegExp(String.raw`^\s*\{\{\s*sample\.(?:output_text|output_json${PATH})\s*\}\}\s*$`);
const OF_ITEM = new RegExp(String.raw`\{\{\s*item${PATH}\s*\}\}`, 'g');
const OF_OUTPUT = new RegExp(String.raw`\{\{\s*sample\.(?:output_text|output_json${PATH}?)\s*\}\}`, 'g');
const KNOWN_TEMPLATES = new RegExp(`${OF_ITEM.source}|${OF_OUTPUT.source}`, 'g');

/** Finds which part of the output is compared, and with which text. Where both sides may change places, either may be the output. */
function comparedIn(
  { input, reference }: Body,
  isSymmetric: boolean,
): { readonly part: { readonly path?: string }; readonly reference: string } | string {
  const sides = [
    [input, reference],
    [reference, input],
  ].slice(0, isSymmetric ? 2 : 1);
  for (const [output, other] of sides) {
    const match = OUTPUT.exec(String(output));
    if (match === null || /\{\{\s*sample\./.test(String(other))) continue;
    return { part: match[1] === undefined ? {} : { path: `$${match[1]}` }, reference: String(other) };
  }
  return 'only checks of {{ sample.output_text }} or {{ sample.output_json.NAME }} against the item or a text are taken over';
}

const textsIn = (list: unknown): string[] => (Array.isArray(list) ? list.map(String) : []);

/** Returns the texts of messages as one rubric; the output is what the judge is shown. */
function messagesOf({ input }: Body, item: Item): string {
  const texts = (Array.isArray(input) ? input : []).flatMap((message) => {
    if (!isBody(message)) return [];
    const { content } = message;
    const parts = Array.isArray(content) ? content : [content];
    return parts.flatMap((part) =>
      typeof part === 'string' ? part : isBody(part) && typeof part.text === 'string' ? part.text : [],
    );
  });
  return filled(texts.join('\n\n'), item).replaceAll(OF_OUTPUT, (_, path?: string) =>
    path === undefined ? '(the output)' : `(${path.slice(1)} of the output)`,
  );
}

const filled = (text: string, item: Item): string =>
  text.replaceAll(OF_ITEM, (whole, path: string) => {
    let value: unknown = item;
    for (const name of path.slice(1).split('.')) value = isBody(value) ? value[name] : undefined;
    if (value === undefined) return whole;
    return typeof value === 'string' ? value : JSON.stringify(value);
  });

/** Calls a grader of OpenAI with what it gets there. */
const programOf = (source: string, item: Item): string =>
  `import json

${source.trimEnd()}

def get_assert(output, context):
    text = output if isinstance(output, str) else json.dumps(output)
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    sample = {"output_text": text, "output_json": value}
    return float(grade(sample, json.loads(${JSON.stringify(JSON.stringify(item))})))
`;
