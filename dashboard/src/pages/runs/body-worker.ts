/** Request to the worker: one member of the run's record at `url`, or the complete record. */
export interface BodyQuestion {
  readonly url: string;
  readonly member?: 'input_data' | 'output_data';
  /** Maximum length in characters of a value returned directly. */
  readonly max: number;
}

/** The value; if it is too large, the beginning of its text and a file with all of it. */
export type BodyAnswer =
  | { readonly value: unknown }
  | { readonly head: string; readonly file: Blob }
  | { readonly status: number; readonly error: unknown };

/**
 * Reads a run's input or output in a worker, because parsing and formatting 50 MB would block the page for a second.
 * The page gets the text to display and a file it need not parse.
 */
self.onmessage = async ({ data: { url, member, max: most } }: MessageEvent<BodyQuestion>) => {
  const answer = (body: BodyAnswer) => self.postMessage(body);
  try {
    const response = await fetch(url, { headers: { 'x-platform-client': 'dashboard' } });
    const body = await response.json();
    if (!response.ok) return answer({ status: response.status, error: body });
    const value: unknown = member === undefined ? body : body[member];
    const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
    if (text.length <= most) return answer({ value });
    answer({ head: text.slice(0, most), file: new Blob([text]) });
  } catch {
    answer({ status: 0, error: undefined });
  }
};
