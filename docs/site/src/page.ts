/** Behaviour of the pages: code tabs that follow one choice, and a button that copies the page as Markdown. */

const CHOICE = 'docs-tab';
const CHANGED = 'docs-tab-changed';

const chosen = (): string | null => {
  try {
    return localStorage.getItem(CHOICE);
  } catch {
    return null;
  }
};

let count = 0;

class CodeTabs extends HTMLElement {
  #tabs: HTMLButtonElement[] = [];
  #panels: HTMLElement[] = [];
  #listen = (): void => this.#show(chosen());

  connectedCallback(): void {
    if (this.#tabs.length === 0) this.#build();
    document.addEventListener(CHANGED, this.#listen);
  }

  disconnectedCallback(): void {
    document.removeEventListener(CHANGED, this.#listen);
  }

  #build(): void {
    const list = document.createElement('div');
    list.role = 'tablist';
    list.ariaLabel = 'How to send it';
    this.#panels = [...this.querySelectorAll<HTMLElement>(':scope > section')];
    this.#tabs = this.#panels.map((panel) => {
      const id = `tab-${++count}`;
      const tab = document.createElement('button');
      tab.type = 'button';
      tab.role = 'tab';
      tab.id = id;
      tab.textContent = panel.dataset.tab!;
      tab.setAttribute('aria-controls', `${id}-panel`);
      tab.addEventListener('click', () => this.#choose(tab));
      panel.id = `${id}-panel`;
      panel.role = 'tabpanel';
      panel.setAttribute('aria-labelledby', id);
      return tab;
    });
    list.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const at = this.#tabs.indexOf(event.target as HTMLButtonElement);
      if (step === undefined || at < 0) return;
      event.preventDefault();
      const next = this.#tabs.at((at + step) % this.#tabs.length)!;
      this.#choose(next);
      next.focus();
    });
    list.append(...this.#tabs);
    this.prepend(list);
    this.#show(chosen());
  }

  #choose(tab: HTMLButtonElement): void {
    // Other tabs above may change their height: the clicked one keeps its place.
    const before = tab.getBoundingClientRect().top;
    try {
      localStorage.setItem(CHOICE, tab.textContent!);
    } catch {
      this.#show(tab.textContent);
    }
    document.dispatchEvent(new Event(CHANGED));
    scrollBy(0, tab.getBoundingClientRect().top - before);
  }

  #show(name: string | null): void {
    const found = this.#tabs.findIndex((tab) => tab.textContent === name);
    const selected = Math.max(found, 0);
    for (const [at, tab] of this.#tabs.entries()) {
      tab.ariaSelected = String(at === selected);
      tab.tabIndex = at === selected ? 0 : -1;
      this.#panels[at]!.hidden = at !== selected;
    }
  }
}

class CopyMarkdown extends HTMLElement {
  connectedCallback(): void {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Copy as Markdown';
    button.addEventListener('click', async () => {
      const copied = await this.#copy().catch(() => false);
      button.textContent = copied ? 'Copied' : 'Could not copy';
      setTimeout(() => {
        button.textContent = 'Copy as Markdown';
      }, 2_000);
    });
    this.replaceChildren(button);
  }

  async #copy(): Promise<boolean> {
    const response = await fetch(this.dataset.url!);
    if (!response.ok) return false;
    await navigator.clipboard.writeText(await response.text());
    return true;
  }
}

customElements.define('code-tabs', CodeTabs);
customElements.define('copy-markdown', CopyMarkdown);
