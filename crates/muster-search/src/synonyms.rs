//! Synonyms and related words.
//!
//! Written from general knowledge of how tools are named and asked for, and after reviewing the misses
//! in one of the tuning sets.

use std::{collections::BTreeMap, sync::LazyLock};

use super::words;

/// The weight of a synonym.
pub(super) const SAME: f32 = 0.8;
/// The weight of a related word.
const NEAR: f32 = 0.25;

/// The terms that may replace `term`, with their weights; the strongest first.
pub(super) fn of(term: &str) -> &'static [(String, f32)] {
    TABLE.get(term).map_or(&[], Vec::as_slice)
}

type Table = BTreeMap<String, Vec<(String, f32)>>;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    for (groups, share) in [(SAME_THING, SAME), (NEAR_THING, NEAR)] {
        for group in groups.split('|') {
            let terms: Vec<_> = group.split_whitespace().map(words::stem).collect();
            for (term, other) in terms.iter().flat_map(|a| terms.iter().map(move |b| (a, b))) {
                let others = table.entry(term.clone().into_owned()).or_default();
                if term != other && !others.iter().any(|(known, _)| known == other) {
                    others.push((other.clone().into_owned(), share));
                }
            }
        }
    }
    table
});

/// Synonyms: abbreviations, spellings, and nouns of verbs that stemming does not relate.
const SAME_THING: &str = "
    repo repository | k8s kubernetes kube kubectl | gh github | erpnext frappe | osm openstreetmap | db database | env environment |
    config configuration configure cfg | auth authentication authenticate | login signin logon |
    img image | pic picture | vid video |
    calc calculate calculation calculator compute computation | analyze analyse analysis analytics |
    summarize summarise summary summarization | translate translation translator |
    convert conversion converter | compare comparison diff difference |
    org organization organisation | doc document | dir directory folder | msg message | num number |
    info information | param parameter argument arg | fn func function | lang language |
    temp temperature | dev development | prod production | app application | tx transaction |
    addr address | qty quantity | amt amount | desc description | ref reference | id identifier |
    admin administrator | spec specification | stat statistic | avg average mean | max maximum |
    min minimum | approx approximate | pkg package | lib library | cmd command |
    exec execute execution | proc process | vm virtualmachine | os operatingsystem | ui interface |
    url link hyperlink | web website webpage site | email mail | dm directmessage | pdf pdfs |
    csv csvs | sms textmessage | color colour | center centre | catalog catalogue |
    favorite favourite bookmark | cancel cancellation | delete deletion | create creation |
    generate generation generator | modify modification | retrieve retrieval |
    recommend recommendation | subscribe subscription | register registration signup |
    reserve reservation | schedule scheduler scheduling | notify notification |
    verify verification | validate validation validator | encrypt encryption | decrypt decryption |
    compress compression | extract extraction | detect detection detector |
    classify classification classifier | predict prediction predictor |
    estimate estimation estimator | optimize optimise optimization optimizer |
    visualize visualise visualization visualisation | simulate simulation simulator |
    navigate navigation | locate location | transact transaction | pay payment | deliver delivery |
    arrive arrival | depart departure | weigh weight | high height | long length | deep depth |
    wide width | format formatter formatting | parse parser | render renderer | monitor monitoring |
    track tracker tracking | log logs logging | test testing | crawl crawler crawling |
    scrape scraper scraping | crypto cryptocurrency | math mathematics mathematical |
    bio biology biological | chem chemistry chemical | geo geography geographic geographical |
    stock equity | photo photograph | movie film | tv television | phone telephone | bike bicycle |
    auto automobile car vehicle | plane airplane aircraft | ad advertisement advert |
    exam examination | lab laboratory
";

/// Groups of related words.
const NEAR_THING: &str = "
    create add new make insert register build generate write compose draft |
    delete remove drop destroy erase clear purge discard uninstall |
    get fetch retrieve read show view obtain display pull |
    list enumerate browse show all available |
    update edit modify change set patch alter adjust revise amend rewrite |
    search find query lookup locate discover explore |
    send post publish deliver notify share forward broadcast submit |
    message chat dm conversation text | email inbox mailbox | file document attachment |
    directory path | pull merge | config setting preference option |
    auth login password credential token | image picture photo screenshot snapshot |
    video clip movie recording footage | audio sound voice speech | calculate evaluate solve |
    stock share ticker market | weather forecast temperature climate rain |
    schedule calendar meeting event appointment | schedule book reserve arrange plan |
    task todo ticket issue reminder | bug issue defect error problem |
    user account profile member person people | price cost quote fee rate |
    buy purchase order shop | route directions navigation path map |
    location place address coordinate geocode geolocation position | near nearby around close |
    convert transform turn | download save export | upload import attach | save store keep persist |
    save backup copy | restore recover undo revert reset rollback |
    run execute invoke call perform | start launch begin open initiate trigger |
    stop kill terminate end halt shutdown quit | cancel abort | pause suspend | resume continue |
    copy duplicate clone | move relocate transfer | rename retitle |
    merge combine join concatenate | split divide separate | chart graph plot diagram visualize |
    web page url browser internet online | spreadsheet sheet excel csv xlsx workbook table |
    presentation ppt pptx slide powerpoint deck | note memo jot | comment reply feedback review |
    label tag | team channel group room | log history record activity | record note track |
    time clock hour | date day calendar | news headline article story |
    paper publication research scholarly academic | customer client | invoice bill receipt |
    payment charge | refund reimburse | check verify validate inspect examine confirm |
    check monitor status health | song music track playlist album | recipe dish meal food cook |
    restaurant dining eat food | hotel accommodation lodging stay | flight airline plane |
    train rail railway | currency exchange forex money | crypto bitcoin coin token |
    definition meaning dictionary | random shuffle | encrypt cipher hash | compress zip archive |
    vm instance server machine host | container docker pod | branch fork | commit changes |
    schema structure columns fields | table relation | row record entry | column field |
    query sql select | count number total amount | sum total | list array |
    company business firm corporation | job career employment position vacancy |
    employee staff worker | house home property apartment | hospital clinic doctor medical |
    disease illness condition symptom | medicine drug medication | student pupil learner |
    course class lesson | school university college | book novel read | author writer | game play |
    sport match team | travel trip journey tour vacation | ticket booking reservation |
    luggage baggage bag | car drive | bus transit transport | energy electricity power |
    speed fast velocity | size large dimension | mute silence | alert notification alarm warning |
    remind reminder | timer countdown | subscribe follow | like favorite | contact phone number |
    call phone dial | compare versus | sort order rank | filter where |
    top best popular trending hot | latest recent newest current last | old earliest oldest |
    increase raise | decrease reduce lower | permission access role right |
    secret password key credential | deploy release rollout | service deployment |
    metric measurement performance | trace span | cluster node | volume disk storage |
    bucket storage | network ip | website domain site | click press tap | type fill enter input |
    scroll swipe | screenshot capture | tab window | element selector | crawl scrape extract |
    knowledge memory remember | entity object | relation relationship link connection |
    gene dna genome | protein sequence | molecule compound | equation formula | matrix vector |
    integral derivative | point coordinate | distance far | area region zone | country nation |
    city town | language linguistic | word term vocabulary | joke funny humor | quote saying |
    gift present | discount coupon deal sale | delivery shipping shipment package parcel |
    product item goods | cart basket | rating review score | profit revenue earnings income |
    expense spending expenditure budget | loan mortgage credit | bank account balance |
    population people inhabitants demographic | vote election | law legal statute | crime police |
    image generate draw paint art | logo design | summarize shorten tldr | explain describe |
    answer question | advice suggestion recommendation suggest recommend tip
";

#[cfg(test)]
mod tests {
    use super::of;

    #[track_caller]
    fn share(term: &str, other: &str) -> Option<f32> {
        of(term).iter().find(|(known, _)| known == other).map(|(_, share)| *share)
    }

    #[test]
    fn both_directions_and_the_stronger_share() {
        assert_eq!(share("repo", "repositori"), share("repositori", "repo"));
        assert!(share("repo", "repositori") > share("delet", "remov"));
        assert_eq!(share("repo", "repo"), None);
        assert_eq!(share("xylophon", "repo"), None);
    }
}
