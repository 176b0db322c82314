import type { Project } from './framework.ts';

/** Variables of a framework that take their values from those of the platform. */
export interface Providers {
  /** Value of `supported_providers`: the platform gives a program the keys of these. */
  readonly supported: readonly string[];
  readonly aliases: readonly { readonly name: string; readonly from: string; readonly without?: string }[];
}

/** What shows in dependencies, imports and names of models that a project uses a provider. */
const SIGNS: Readonly<Record<string, RegExp>> = {
  openai:
    /\b(?:langchain_openai|ChatOpenAI|OPENAI_API_KEY)\b|@ai-sdk\/openai["']|@langchain\/openai|\bopenai(?:-\w+)?[:/](?:gpt|o\d)|["'](?:gpt-|o[134]-)[\w.-]+["']|["']openai["']/,
  anthropic:
    /\b(?:langchain_anthropic|ChatAnthropic|ANTHROPIC_API_KEY)\b|@ai-sdk\/anthropic["']|@langchain\/anthropic|\banthropic[:/]claude|["']claude-[\w.-]+["']/,
  gemini:
    /\b(?:langchain_google_genai|ChatGoogleGenerativeAI|GEMINI_API_KEY|GOOGLE_API_KEY)\b|@ai-sdk\/google["']|@langchain\/google-genai|["'](?:(?:google[\w-]*|gemini)[:/])?gemini-[\w.-]+["']/,
};

/** Names that libraries of Google's models read instead. */
const GEMINI_ALIASES: Providers['aliases'] = [
  { name: 'GOOGLE_API_KEY', from: 'GEMINI_API_KEY' },
  { name: 'GOOGLE_GENERATIVE_AI_API_KEY', from: 'GEMINI_API_KEY' },
  // The library adds the version itself.
  { name: 'GOOGLE_GEMINI_BASE_URL', from: 'GEMINI_BASE_URL', without: '/v1beta' },
];

/** @param usual Provider that the framework uses where the project names none */
export function providersOf({ sources }: Project, usual?: string): Providers {
  const found = Object.keys(SIGNS).filter((provider) => sources.some(({ text }) => SIGNS[provider]!.test(text)));
  const supported = found.length > 0 ? found : usual === undefined ? ['any'] : [usual];
  return { supported, aliases: supported.includes('gemini') ? GEMINI_ALIASES : [] };
}
