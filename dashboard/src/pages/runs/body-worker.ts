/** What is asked of the worker: a member of the run's record at `url`, or all of it. */
export interface BodyQuestion {
  readonly url: string;
  readonly member?: 'input_data' | 'output_data';
  /** Characters up to which the value itself is the answer. */
  readonly max: number;
}

/** The value; of a larger one, the beginning of its text and all of it as a file. */
export type BodyAnswer =
  | { readonly value: unknown }
  | { readonly head: string; readonly file: Blob }
  | { readonly status: number; readonly error: unknown };

/**
 * Reads a run's input or output beside the page: one of 50 MB takes a second to parse and to write, in which the page could not
 * even scroll. The page gets what it shows, and a file that it need not look into.
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
