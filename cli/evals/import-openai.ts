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
 * Takes over an export of OpenAI's hosted evaluations: lines `{"item": {...}}`, and an object with `testing_criteria`, in the same file or
 * another one. Values of items are put into the asserts, so that `members` may say which of them the agent gets.
 */
export function fromOpenAi(
  lines: readonly unknown[],
  { judge, members }: { readonly judge: string | undefined; readonly members: readonly string[] | undefined },
): Imported {
  const left: string[] = [];
  const items: Item[] = [];
  const criteria: Body[] = [];
  for (const [index, line] of lines.entries()) {
    if (isBody(line) && isBody(line.item)) items.push(line.item);
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
    if (each.type === 'text_similarity')
      left.push(`${name}: its measure is now the distance of Levenshtein, which is stricter`);
    if (/_model$/.test(String(each.type)))
      model ??= typeof each.model === 'string' ? `openai/${each.model}` : USUAL_JUDGE;
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
  const { type, input, reference, name } = criterion;
  const metric = typeof name === 'string' && name !== '' ? { metric: name.slice(0, 500) } : {};
  const threshold = typeof criterion.pass_threshold === 'number' ? criterion.pass_threshold : undefined;
  switch (type) {
    case 'string_check': {
      const kind = OPERATIONS[String(criterion.operation)];
      if (kind === undefined) return `the operation ${String(criterion.operation)} is not known`;
      if (!isOutput(input)) return 'only checks of {{ sample.output_text }} are taken over';
      return (item) => ({ type: kind, value: filled(String(reference), item), ...metric });
    }
    case 'text_similarity': {
      if (criterion.evaluation_metric !== 'fuzzy_match')
        return `the measure ${String(criterion.evaluation_metric)} is not known`;
      if (!isOutput(input)) return 'only checks of {{ sample.output_text }} are taken over';
      return (item) => {
        const value = filled(String(reference), item);
        const distance = Math.max(1, Math.round((1 - (threshold ?? 1)) * value.length));
        return { type: 'levenshtein', value, threshold: distance, ...metric };
      };
    }
    case 'label_model': {
      const passing = Array.isArray(criterion.passing_labels) ? criterion.passing_labels.join(', ') : '';
      const labels = Array.isArray(criterion.labels) ? criterion.labels.join(', ') : '';
      return (item) => ({
        type: 'llm-rubric',
        value: `${messagesOf(input, item)}\n\nThe labels are: ${labels}. It passes if the label is one of: ${passing}.`,
        ...metric,
      });
    }
    case 'score_model': {
      const [low, high] = Array.isArray(criterion.range) ? (criterion.range as [number, number]) : [0, 1];
      const share = threshold === undefined ? undefined : (threshold - low) / (high - low);
      return (item) => ({
        type: 'llm-rubric',
        value: `${messagesOf(input, item)}\n\nWhere this says a score from ${low} to ${high}, give it as a share from 0 to 1.`,
        ...(share !== undefined && { threshold: Math.min(1, Math.max(0, share)) }),
        ...metric,
      });
    }
    default:
      return 'criteria of this type are not taken over';
  }
}

const isOutput = (input: unknown): boolean =>
  typeof input === 'string' && /^\s*\{\{\s*sample\.output_text\s*\}\}\s*$/.test(input);

/** Returns the texts of messages as one rubric; the output is what the judge is shown. */
function messagesOf(input: unknown, item: Item): string {
  const texts = (Array.isArray(input) ? input : []).flatMap((message) => {
    if (!isBody(message)) return [];
    const { content } = message;
    if (typeof content === 'string') return [content];
    return isBody(content) && typeof content.text === 'string' ? [content.text] : [];
  });
  return filled(texts.join('\n\n'), item).replaceAll(/\{\{\s*sample\.output_text\s*\}\}/g, '(the output)');
}

const filled = (text: string, item: Item): string =>
  text.replaceAll(/\{\{\s*item\.([\w-]+)\s*\}\}/g, (whole, name: string) => {
    const value = item[name];
    if (value === undefined) return whole;
    return typeof value === 'string' ? value : JSON.stringify(value);
  });
