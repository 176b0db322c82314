import { httpStatusOf, isPlatformError } from '#core/base/errors.ts';
import { errorPage } from '#core/http/html-page.ts';
import type { HttpRequest } from '#core/http/message.ts';
import { PAGE_HEADERS } from '#core/http/page-headers.ts';

const HTML = 'text/html; charset=utf-8';

/** Whether the client is a browser that shows the answer. */
export const wantsHtml = ({ headers }: HttpRequest): boolean => headers.get('accept')?.includes('text/html') ?? false;

/** A page, or a status with a page. */
export type PageAnswer = Uint8Array | { status: number; content?: Uint8Array; headers?: Record<string, string> };

/** Answers with a page. Errors are pages for browsers, and error envelopes for programs. */
export async function answerPage(
  request: HttpRequest,
  make: () => Promise<PageAnswer>,
  showProblem?: (message: string) => Uint8Array,
) {
  const answer = await make().catch((error: unknown): PageAnswer => {
    if (!isPlatformError(error) || !wantsHtml(request)) throw error;
    const { code, message, extra } = error;
    const content = code === 'UNAUTHORIZED' && showProblem ? showProblem(message) : errorPage(message, extra.hint);
    return { status: httpStatusOf(code), content };
  });
  const {
    status,
    content = new Uint8Array(),
    headers = {},
  } = answer instanceof Uint8Array ? { status: 200, content: answer } : answer;
  return {
    status,
    raw: { contentType: HTML, content },
    headers: { ...PAGE_HEADERS, 'cache-control': 'no-store', ...headers },
  };
}
