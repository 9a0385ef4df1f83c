/// The style sheet and the script of the page.
extension PageText {
    static let style = """
        :root{--bg:linear-gradient(160deg,#c9d6ee,#e9dfea 60%,#f3e6dc);--card:#ffffffd9;--ink:#16191d;--soft:#5b6470;\
        --line:#0000001a;--good:#146c40;--bad:#b3261e;--live:#0b57d0;--mark:#0000000f}
        @media(prefers-color-scheme:dark){:root{--bg:linear-gradient(160deg,#131a2a,#221b2c 60%,#2a211d);--card:#22262ed9;\
        --ink:#eceef2;--soft:#a3acb9;--line:#ffffff1f;--good:#5fd39a;--bad:#ff8a80;--live:#8ab4f8;--mark:#ffffff14}}
        *{box-sizing:border-box}html{min-height:100%;background:var(--bg) fixed}
        body{margin:0 auto;padding:20px 14px 40px;max-width:560px;color:var(--ink);\
        font:15px/1.4 system-ui,-apple-system,"Segoe UI",sans-serif}
        header{display:flex;flex-wrap:wrap;gap:10px 14px;align-items:center;margin-bottom:6px}h1{font-size:20px;margin:0}
        form{display:flex;flex-wrap:wrap;gap:6px;flex:1 1 300px}
        input,select,button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);\
        border-radius:9px;padding:5px 10px}
        input{flex:1 1 110px;min-width:0}button{cursor:pointer}
        .count{color:var(--soft);font-size:13px;margin:8px 2px}
        article{background:var(--card);border:1px solid var(--line);border-radius:18px;padding:12px 16px;margin:0 0 10px;\
        overflow-wrap:anywhere}
        article.silent,article.other{border-style:dashed;box-shadow:none}
        article.live{border-left:4px solid var(--live)}article.voip{border-left:4px solid var(--good)}
        article.refused .text{opacity:.55}
        .top{display:flex;gap:10px;justify-content:space-between;color:var(--soft);font-size:12px}time{white-space:nowrap}
        .text{display:flex;flex-direction:column;margin:3px 0 7px}.text i{color:var(--soft)}.subtitle{font-weight:500}
        .marks{display:flex;flex-wrap:wrap;gap:5px;margin:0;font-size:12px}
        .marks span{background:var(--mark);border-radius:99px;padding:1px 9px}
        .marks .verdict{font-weight:600}.good{color:var(--good)}.bad{color:var(--bad)}
        details{margin-top:7px;font-size:12px}summary{cursor:pointer;color:var(--soft)}
        dl{display:grid;grid-template-columns:minmax(90px,auto) 1fr;gap:2px 10px;margin:8px 0}dt{color:var(--soft)}dd{margin:0}
        pre{margin:0;padding:8px 10px;background:var(--mark);border-radius:9px;white-space:pre-wrap;overflow-wrap:anywhere}
        """

    /// Replaces the cards every second by their new state; open details stay open. Without the script the page is complete.
    static let script = """
        async function turn(){try{
        const response=await fetch(location.href,{cache:'no-store'}),\
        next=new DOMParser().parseFromString(await response.text(),'text/html').getElementById('pushes'),\
        cards=document.getElementById('pushes');
        if(next&&next.innerHTML!==turn.last){turn.last=next.innerHTML;
        for(const open of cards.querySelectorAll('details[open]')){
        const same=next.querySelector('#'+open.parentElement.id+' details');if(same)same.open=true}
        cards.replaceWith(next)}
        }catch{}setTimeout(turn,1000)}
        document.getElementById('clear').addEventListener('click',()=>fetch('/api/pushes',{method:'DELETE'}));
        setTimeout(turn,1000);
        """
}
