import * as z from 'zod';

/** Schema of a setting whose text is JSON of the given schema. The errors name each wrong member. */
export const jsonText = <Schema extends z.ZodType>(schema: () => Schema) =>
  z.string().transform((text, context): z.output<Schema> => {
    const { data, error, success } = schema().safeParse(jsonOf(text));
    for (const { path, message } of error?.issues ?? []) {
      context.addIssue({ code: 'custom', message: path.length > 0 ? `${path.join('.')}: ${message}` : message });
    }
    return success ? data : z.NEVER;
  });

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
