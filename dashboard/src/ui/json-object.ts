import type { ArgumentsOf } from '../api/client.ts';

type JsonObject = NonNullable<ArgumentsOf<'updateSchedule'>['body']['input_data']>;

/** Parses a JSON object, or returns the problem. */
export function objectOf(text: string): { readonly value?: JsonObject; readonly problem?: string } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { value: value as JsonObject };
    return { problem: 'It must be a JSON object, such as {"topic": "news"}.' };
  } catch (error) {
    return { problem: `This is not valid JSON: ${(error as Error).message}` };
  }
}
