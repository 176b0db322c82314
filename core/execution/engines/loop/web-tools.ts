import type { Json } from '#core/base/json.ts';
import type { ModelCost } from '#core/runs/run.ts';
import { fetchPage, type WebDeps, type WebPage } from '../../web/fetch-page.ts';
import { searchWeb } from '../../web/search.ts';
import type { EngineRun } from '../engine.ts';
import { pageOf, type ReadPlace } from './file-tools.ts';
import type { WebTool } from './tool-definitions.ts';
import { errorOutcome, outcomeOf, type ToolOutcome } from './tool-outcome.ts';
import { MAX_RESULT_BYTES } from './tool-output.ts';
import { UNTRUSTED_BYTES, untrusted } from './untrusted.ts';

/** Maximum number of calls of each tool in one run (`docs/interface/web-tools.md`). */
export const MAX_WEB_CALLS: { readonly [tool in WebTool]: number } = { web_search: 50, web_fetch: 100 };
const DEFAULT_RESULTS = 5;
/** Space for the address and the title of a page. */
const SOURCE_BYTES = 2500;

type Parameters = { readonly [name: string]: Json };
type WebRun = Pick<EngineRun, 'search' | 'mask'>;

/** The web tools of one run (`docs/interface/web-tools.md`). */
export class WebTools {
  readonly #deps: WebDeps;
  readonly #run: WebRun;
  readonly #signal: AbortSignal;
  /** The page that was fetched last, for the calls that read on. */
  #last: { readonly address: string; readonly page: WebPage } | undefined;

  constructor(deps: WebDeps, run: WebRun, signal: AbortSignal) {
    this.#deps = deps;
    this.#run = run;
    this.#signal = signal;
  }

  call(tool: WebTool, parameters: Parameters): Promise<ToolOutcome> {
    const sent = (parameters.url ?? parameters.query) as string;
    // A page may tell the model to send a secret somewhere.
    if (this.#run.mask.text(sent) !== sent) {
      return Promise.resolve(errorOutcome(`${tool} sends no secrets: leave out the secret.`));
    }
    return tool === 'web_search' ? this.#search(parameters) : this.#fetch(sent, parameters as ReadPlace);
  }

  async #search({ query, count = DEFAULT_RESULTS }: Parameters): Promise<ToolOutcome> {
    const { search } = this.#run;
    if (search === undefined) return errorOutcome('This run has no key to search with.');
    const asked = { query: query as string, count: count as number };
    const found = await searchWeb(this.#deps, search, asked, this.#signal);
    if ('problem' in found) return errorOutcome(found.problem);
    const cost: ModelCost = {
      provider: search.provider,
      model: 'web_search',
      costUsd: this.#deps.config.searchPrices[search.provider],
    };
    const lines = found.results.map(({ title, url, text }, i) => `${i + 1}. ${title}\n   ${url}\n   ${text}`);
    const text = lines.length === 0 ? '(nothing was found)' : untrusted('Results of the search:', lines.join('\n'));
    return { ...outcomeOf(text), cost };
  }

  async #fetch(address: string, place: ReadPlace): Promise<ToolOutcome> {
    const page = await this.#pageAt(address, place);
    if ('problem' in page) return errorOutcome(page.problem);
    const { url, title, text, isCut } = page;
    if (text === '') return outcomeOf('The page has no text.');
    const read = pageOf(text, place, MAX_RESULT_BYTES - UNTRUSTED_BYTES - SOURCE_BYTES);
    if ('problem' in read) return errorOutcome(read.problem);
    const cut = isCut ? '\n(The page is longer than what is kept of it.)' : '';
    const about = title === undefined ? '' : `# ${title}\n\n`;
    return outcomeOf(untrusted(`Text of ${url}:${cut}`, `${about}${read.page}`));
  }

  async #pageAt(
    address: string,
    { offset = 1, column = 1 }: ReadPlace,
  ): Promise<WebPage | { readonly problem: string }> {
    const readsOn = offset > 1 || column > 1;
    if (readsOn && this.#last?.address === address) return this.#last.page;
    const page = await fetchPage(this.#deps, address, this.#signal);
    if ('problem' in page) return page;
    this.#last = { address, page };
    return page;
  }
}
