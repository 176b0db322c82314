/**
 * A `fetch` for `HttpAgent` that resumes a stream of AG-UI that broke: it sends the same request again with the id of the
 * last event, and goes on where the stream ended (docs/ag-ui.md).
 */
export const resumingFetch =
  (maxTries = 20): ((url: string, init: RequestInit) => Promise<Response>) =>
  async (url, init) => {
    let last = '';
    const ask = () =>
      fetch(url, { ...init, headers: { ...init.headers, ...(last !== '' && { 'Last-Event-ID': last }) } });
    const first = await ask();
    if (!first.ok || first.body === null) return first;
    async function* records() {
      let isOver = false;
      for (let tries = 0, response = first; !isOver && tries < maxTries; tries++) {
        if (tries > 0) {
          await new Promise((resolve) => setTimeout(resolve, 500));
          response = await ask();
          if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
        }
        let rest = '';
        try {
          for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
            const parts = (rest + text).split('\n\n');
            rest = parts.pop()!;
            for (const part of parts) {
              last = /^id: (\S+)/.exec(part)?.[1] ?? last;
              isOver ||= /"type":"RUN_(FINISHED|ERROR)"/.test(part);
              yield new TextEncoder().encode(`${part}\n\n`);
            }
          }
        } catch (error) {
          if (init.signal?.aborted) throw error;
        }
      }
    }
    return new Response(ReadableStream.from(records()), { headers: first.headers });
  };
