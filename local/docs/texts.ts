import { withLinks } from './markdown.ts';
import { type DocsPage, HOME_PAGE, pagesIn, sourceOf, summaryOf, titled } from './pages.ts';

/** The texts of the documentation for programs: the Markdown of each page, `llms.txt` and `llms-full.txt`. */
export class DocsTexts {
  readonly #docs: string;
  readonly #base: string;
  readonly pages: readonly DocsPage[];

  /** `docs`: folder of the sources. `base`: public path of the site, with a trailing slash. */
  constructor(docs: string, base: string) {
    this.#docs = docs;
    this.#base = base;
    this.pages = [HOME_PAGE, ...pagesIn(docs)];
  }

  isPage = (file: string): boolean => this.pages.some((page) => page.file === file);

  /** Returns the Markdown of a page, with links to the Markdown of others; `undefined` if there is no such page. */
  markdownOf(slug: string): string | undefined {
    const page = this.pages.find((one) => one.slug === (slug === 'index' ? '' : slug));
    if (page === undefined) return undefined;
    const rules = { file: page.file, isPage: this.isPage, base: this.#base, extension: '.md' } as const;
    return withLinks(sourceOf(this.#docs, page.file), rules);
  }

  /** Returns the list of pages in the format of llmstxt.org. */
  list(): string {
    const groups = Map.groupBy(this.pages.slice(1), ({ group }) => group);
    const sections = [...groups].map(([label, pages]) => {
      const lines = pages.map(({ slug, file }) => {
        const { title, body } = titled(sourceOf(this.#docs, file), file);
        const summary = summaryOf(body);
        return `- [${title}](${this.#base}${slug}.md)${summary ? `: ${summary}` : ''}`;
      });
      return `## ${label}\n\n${lines.join('\n')}`;
    });
    const { title, body } = titled(sourceOf(this.#docs, HOME_PAGE.file), HOME_PAGE.file);
    return `${[
      `# ${title}`,
      `> ${summaryOf(body) ?? title}`,
      `The whole documentation in one file: [llms-full.txt](/llms-full.txt). Every route, with examples: [openapi.json](/openapi.json).`,
      ...sections,
    ].join('\n\n')}\n`;
  }

  /** Returns all pages in one text. */
  full(): string {
    return this.pages
      .map(({ slug }) => this.markdownOf(slug)!.trim())
      .join('\n\n---\n\n')
      .concat('\n');
  }
}
